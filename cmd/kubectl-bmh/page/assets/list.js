// SPDX-License-Identifier: Apache-2.0

import { announce, duration, h, plural, setClass, setText } from "./dom.js";
import { changePower } from "./actions.js";

// pageSize is how many rows are in the document. More are added on request.
const pageSize = 1000;

export const marks = { problem: "▲", busy: "◐", running: "●", idle: "○" };

const urgency = { problem: 0, busy: 1, running: 2, idle: 2 };
const byText = (pick) => (a, b) => compare(pick(a), pick(b));
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const sorts = {
  name: () => 0,
  state: byText((r) => r.state),
  since: (a, b) => compare(b.since ?? "", a.since ?? ""),
  power: byText((r) => r.power ?? ""),
  consumer: byText((r) => r.consumer ?? ""),
  problem: byText((r) => urgency[r.tone]),
};

const columns = [
  { name: "namespace", title: "Namespace", text: (r) => r.namespace, onlyAll: true },
  { name: "name", title: "Name", sort: "name" },
  { name: "state", title: "State", sort: "state" },
  { name: "step", title: "Step" },
  { name: "since", title: "For", sort: "since", text: (r) => (r.since ? duration(r.since) : "") },
  { name: "power", title: "Power", sort: "power", text: (r) => powerText(r.power) },
  { name: "consumer", title: "Consumer", sort: "consumer", text: (r) => [r.consumer, r.machine, r.node].filter((n, i, all) => n && all.indexOf(n) === i).join(" · ") },
  { name: "problem", title: "Problem", sort: "problem" },
];

// powerText says what the marks ! and ? of kubectl bmh mean.
export function powerText(power) {
  if (power === "off?") return "off, and may come on";
  return power?.endsWith("!") ? `${power.slice(0, -1)} (not as asked)` : power ?? "";
}

// showState puts a state into an element: a shape, a colour and a word, and that it is the last known one.
export function showState(element, row) {
  if (!element.firstElementChild) element.replaceChildren(h("span", { "aria-hidden": "true", class: "mark" }), document.createTextNode(""));
  const [mark, word] = element.childNodes;
  setText(mark, row.isLast ? "◌" : marks[row.tone]);
  const text = ` ${row.state}${row.isLast ? " (last known)" : ""}`;
  if (word.data !== text) word.data = text;
  setClass(element, `state ${row.tone}${row.isLast ? " last-known" : ""}`);
}

// isRecent reports whether a host came into its state within the last hour.
export const isRecent = (row) => Boolean(row.since) && Date.now() - Date.parse(row.since) < 3_600_000;

// matches reports whether a host has a text, in lower case, in what is shown of it or in a label, as KEY=VALUE.
export const matches = (row, text) => !text ||
  [row.namespace, row.name, row.state, row.step, `power ${row.power}`, row.consumer, row.machine, row.node, row.problem, row.bmc, row.ironic].some((t) => t?.toLowerCase().includes(text)) ||
  Object.entries(row.labels ?? {}).some(([key, value]) => `${key}=${value}`.toLowerCase().includes(text));

// isShown reports whether one of the buttons over the list, or a group of the map, selects a host.
function isShown(row, show) {
  if (show === "problems") return row.tone === "problem";
  if (show === "busy") return row.tone === "busy";
  if (show === "recent") return isRecent(row);
  if (show.startsWith("state:")) return row.state === show.slice(6);
  if (show.startsWith("label:")) return Object.entries(row.labels ?? {}).some(([key, value]) => `${key}=${value}` === show.slice(6));
  return true;
}

// hostLink is the address of the view of a host.
export const hostLink = (row) => `#/host/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;

export function showList({ main, fleet, title }, query) {
  title("List");
  const view = { text: query.get("q") ?? "", show: query.get("show") ?? "all", sort: Object.hasOwn(sorts, query.get("sort")) ? query.get("sort") : "name", reverse: query.has("reverse"), limit: pageSize };
  const selected = new Set();
  const lines = new Map();
  // visible are the hosts that match, and here those of them that are in the document.
  let visible = [], here = [];
  const isAll = fleet.scope.allNamespaces;
  const used = columns.filter((c) => isAll || !c.onlyAll);

  const filter = h("input", { type: "search", id: "filter", value: view.text, autocomplete: "off", spellcheck: "false", oninput: () => { view.text = filter.value; changed(); } });
  const counts = h("div", { class: "counts", role: "group", "aria-label": "Show" });
  const all = h("input", { type: "checkbox", "aria-label": "Select all hosts that are shown", onchange: () => { for (const row of here) select(row.id, all.checked); showSelection(); } });
  const headings = new Map();
  const head = h("tr", null, h("th", { scope: "col", class: "select" }, all), used.map((c) => {
    const heading = h("th", { scope: "col", class: c.name }, c.sort ? h("button", { type: "button", onclick: () => sortBy(c.sort) }, c.title) : c.title);
    if (c.sort) headings.set(c.sort, heading);
    return heading;
  }));
  const body = h("tbody");
  const empty = h("p", { class: "empty", hidden: true });
  const more = h("button", { type: "button", hidden: true, onclick: () => { view.limit += pageSize; draw(); } });
  const chosen = h("span");
  const power = (action, mode) => () => changePower([...selected].map((id) => fleet.rows.get(id)).filter(Boolean), action, mode, fleet.nameOf);
  const bulk = h("div", { class: "bulk", role: "group", "aria-label": "Hosts that are selected", hidden: true }, chosen,
    h("button", { type: "button", onclick: power("on") }, "Power on"),
    h("button", { type: "button", onclick: power("off", "soft") }, "Shut down"),
    h("button", { type: "button", onclick: power("off", "hard") }, "Power off"),
    h("button", { type: "button", onclick: power("reboot", "soft") }, "Reboot"),
    h("button", { type: "button", onclick: () => { for (const id of [...selected]) select(id, false); showSelection(); filter.focus(); } }, "Clear the selection"));
  main.append(
    h("div", { class: "tools" },
      h("div", { class: "search" }, h("label", { for: "filter" }, "Filter"), filter),
      fleet.scope.readOnly ? null : h("a", { class: "button", href: "#/add", id: "add" }, "Add a host")),
    counts, bulk,
    h("div", { class: "scroll" }, h("table", { class: "hosts" }, h("caption", { class: "unseen" }, "Hosts"), h("thead", null, head), body)), empty, more);

  // newLine makes a row of the table. Its cells are changed in place later.
  function newLine(id) {
    const box = h("input", { type: "checkbox", onchange: () => { select(id, box.checked); showSelection(); } });
    const link = h("a");
    const cells = { name: h("th", { scope: "row", class: "name" }, link) };
    const state = h("span"), step = h("span", { class: "step-text" }), bar = h("progress", { max: 1, hidden: true, "aria-hidden": "true" });
    cells.state = h("td", { class: "state-cell" }, state);
    cells.step = h("td", { class: "step" }, bar, step);
    const problem = h("div"); // two lines of it are shown, and all of it in the view of the host
    cells.problem = h("td", { class: "problem" }, problem);
    for (const c of used) cells[c.name] ??= h("td", { class: c.name });
    return { box, problem, link, cells, state, step, bar, row: null, element: h("tr", null, h("td", { class: "select" }, box), used.map((c) => cells[c.name])) };
  }

  function update(line, row) {
    if (line.row === row) return;
    line.row = row;
    setText(line.link, row.name);
    if (line.link.getAttribute("href") !== hostLink(row)) line.link.setAttribute("href", hostLink(row));
    line.box.setAttribute("aria-label", `Select ${fleet.nameOf(row)}`);
    line.element.dataset.name = row.name;
    showState(line.state, row);
    setText(line.step, row.step ?? "");
    line.bar.hidden = !row.fraction;
    if (row.fraction) line.bar.value = row.fraction;
    for (const c of used) if (c.text) setText(line.cells[c.name], c.text(row));
    setText(line.problem, row.problem ?? "");
    line.problem.title = row.problem ?? "";
  }

  function select(id, isSelected) {
    if (isSelected) selected.add(id); else selected.delete(id);
    const line = lines.get(id);
    if (line) line.box.checked = isSelected;
  }

  function showSelection() {
    bulk.hidden = selected.size === 0 || fleet.scope.readOnly;
    setText(chosen, `${plural(selected.size, "host")} selected`);
    all.checked = here.length > 0 && selected.size === here.length;
    all.indeterminate = selected.size > 0 && !all.checked;
  }

  // draw brings the table to what the fleet and the filter are now. Rows are moved only if their order
  // has changed, so that a thousand of them stay where they are while a few change.
  function draw() {
    const text = view.text.toLowerCase(), sign = view.reverse ? -1 : 1;
    visible = [...fleet.rows.values()].filter((row) => isShown(row, view.show) && matches(row, text)).sort((a, b) => sign * (sorts[view.sort](a, b) || compare(a.namespace, b.namespace) || compare(a.name, b.name)));
    here = visible.slice(0, view.limit);
    for (const id of [...lines.keys()]) if (!fleet.rows.has(id)) lines.delete(id);
    // What is not shown must not be acted on.
    const ids = new Set(here.map((row) => row.id));
    for (const id of [...selected]) if (!ids.has(id)) select(id, false);
    const stay = new Set(here.map((row) => lines.get(row.id)?.element));
    for (const element of [...body.children]) if (!stay.has(element)) element.remove();
    let next = body.firstChild;
    for (const row of here) {
      let line = lines.get(row.id);
      if (!line) lines.set(row.id, line = newLine(row.id));
      update(line, row);
      if (next === line.element) next = next.nextSibling;
      else body.insertBefore(line.element, next);
    }
    empty.hidden = visible.length > 0;
    setText(empty, fleet.rows.size === 0 ? "There are no hosts yet." : "No host matches.");
    more.hidden = visible.length <= here.length;
    setText(more, `${here.length} of ${visible.length} hosts are shown: show ${Math.min(pageSize, visible.length - here.length)} more`);
    for (const [name, heading] of headings) {
      if (name === view.sort) heading.setAttribute("aria-sort", view.reverse ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
    drawCounts();
    showSelection();
  }

  const buttons = new Map();

  // drawCounts shows how many hosts there are of each kind. A click shows only those.
  function drawCounts() {
    const numbers = new Map([["all", fleet.rows.size], ["problems", 0], ["busy", 0], ["recent", 0]]);
    const states = new Map();
    for (const row of fleet.rows.values()) {
      if (row.tone === "problem") numbers.set("problems", numbers.get("problems") + 1);
      if (row.tone === "busy") numbers.set("busy", numbers.get("busy") + 1);
      if (isRecent(row)) numbers.set("recent", numbers.get("recent") + 1);
      states.set(row.state, (states.get(row.state) ?? 0) + 1);
    }
    if (view.show.startsWith("state:") && !states.has(view.show.slice(6))) states.set(view.show.slice(6), 0);
    for (const [state, n] of [...states].sort(([a, x], [b, y]) => y - x || compare(a, b))) numbers.set(`state:${state}`, n);
    if (view.show.startsWith("label:")) numbers.set(view.show, [...fleet.rows.values()].filter((row) => isShown(row, view.show)).length);
    const names = { all: plural(fleet.rows.size, "host"), problems: `${numbers.get("problems")} with a problem`, busy: `${numbers.get("busy")} busy`, recent: `${numbers.get("recent")} changed in the last hour` };
    for (const [show, button] of buttons) if (!numbers.has(show)) { button.remove(); buttons.delete(show); }
    for (const [show, n] of numbers) {
      let button = buttons.get(show);
      if (!button) {
        button = h("button", { type: "button", onclick: () => { choose(view.show === show ? "all" : show); } });
        buttons.set(show, button);
        counts.append(button);
      }
      setText(button, names[show] ?? `${n} ${show.slice(6)}`);
      button.setAttribute("aria-pressed", String(view.show === show));
    }
  }

  // choose shows other hosts; those that have changed lately, the last one first.
  function choose(show) {
    if (show === "recent") [view.sort, view.reverse] = ["since", false];
    view.show = show;
    changed();
  }

  function sortBy(name) {
    view.reverse = view.sort === name && !view.reverse;
    view.sort = name;
    changed();
  }

  // changed is called when the user wants to see other hosts. That is kept in the address, for bookmarks
  // and for the way back from a host.
  function changed() {
    const query = new URLSearchParams();
    if (view.text) query.set("q", view.text);
    if (view.show !== "all") query.set("show", view.show);
    if (view.sort !== "name") query.set("sort", view.sort);
    if (view.reverse) query.set("reverse", "");
    view.limit = pageSize;
    history.replaceState(null, "", `#/${query.size ? `?${query}` : ""}`);
    draw();
    announce(`${visible.length} of ${plural(fleet.rows.size, "host")} shown`);
  }

  const tick = setInterval(() => {
    for (const line of lines.values()) if (line.element.isConnected && line.row.since) setText(line.cells.since, duration(line.row.since));
  }, 1000);
  const recount = setInterval(draw, 60_000); // what changed an hour ago is not recent any more
  fleet.addEventListener("change", draw);
  draw();
  return () => { clearInterval(tick); clearInterval(recount); fleet.removeEventListener("change", draw); };
}
