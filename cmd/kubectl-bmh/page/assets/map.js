// SPDX-License-Identifier: Apache-2.0

import { announce, h, plural, setClass, setText } from "./dom.js";
import { hostLink, isRecent, marks, matches } from "./list.js";

// manyHosts is from how many hosts on a tile has no room for the name.
const manyHosts = 300;
const natural = new Intl.Collator("en", { numeric: true }).compare;

// What hosts can be grouped by besides their labels.
const fields = {
  state: { title: "State", of: (r) => r.state },
  namespace: { title: "Namespace", of: (r) => r.namespace },
  ironic: { title: "Ironic", of: (r) => r.ironic },
};

// labelKeys returns the labels that hosts have, those that divide the fleet into groups first, and of these the most frequent ones.
function labelKeys(rows) {
  const labels = new Map();
  for (const row of rows) for (const [key, value] of Object.entries(row.labels ?? {})) {
    const label = labels.get(key) ?? { hosts: 0, values: new Set() };
    labels.set(key, label);
    label.hosts++;
    label.values.add(value);
  }
  const divides = (l) => l.values.size > 1 && l.values.size < l.hosts;
  return [...labels].sort(([a, x], [b, y]) => divides(y) - divides(x) || y.hosts - x.hosts || natural(a, b)).map(([key, l]) => ({ key, divides: divides(l) }));
}

// showMap shows each host as a tile, grouped by a label, such as the one that names its rack.
export function showMap({ main, fleet, title }, query) {
  title("Map");
  const view = { by: query.get("by"), text: query.get("q") ?? "" };
  const tiles = new Map(), groups = new Map();
  let visible = 0;

  const by = h("select", { id: "by", onchange: () => { view.by = by.value; changed(); } });
  const filter = h("input", { type: "search", id: "filter", value: view.text, autocomplete: "off", spellcheck: "false", oninput: () => { view.text = filter.value; changed(); } });
  const empty = h("p", { class: "empty", hidden: true });
  const body = h("div", { class: "map" });
  const legend = h("p", { class: "hint legend" }, ["▲ problem", "◐ busy", "● runs something", "○ idle", "with a frame: changed in the last hour"].map((text) => h("span", null, text)));
  main.append(
    h("div", { class: "tools" },
      h("div", { class: "search" }, h("label", { for: "by" }, "Group by"), by),
      h("div", { class: "search" }, h("label", { for: "filter" }, "Filter"), filter)),
    legend, body, empty);

  // drawChoice offers what there is to group by now, unless somebody is choosing.
  function drawChoice(keys) {
    const options = [...keys.map(({ key }) => [`label:${key}`, key]), ["state", fields.state.title]];
    if (fleet.scope.allNamespaces) options.push(["namespace", fields.namespace.title]);
    if ([...fleet.rows.values()].some((r) => r.ironic)) options.push(["ironic", fields.ironic.title]);
    if (!options.some(([value]) => value === chosen(keys))) options.push([chosen(keys), chosen(keys).slice("label:".length)]);
    if (document.activeElement !== by && JSON.stringify(options) !== by.dataset.options) {
      by.dataset.options = JSON.stringify(options);
      by.replaceChildren(...options.map(([value, text]) => h("option", { value }, text)));
    }
    by.value = chosen(keys);
  }

  function chosen(keys) {
    if (view.by && (view.by.startsWith("label:") || Object.hasOwn(fields, view.by))) return view.by;
    return keys[0]?.divides ? `label:${keys[0].key}` : "state";
  }

  function groupOf(row, key) {
    const value = key.startsWith("label:") ? row.labels?.[key.slice("label:".length)] : fields[key].of(row);
    return value ?? "";
  }

  function newGroup(name, key) {
    const link = h("a"), summary = h("span"), list = h("ul");
    const only = key.startsWith("label:") ? `label:${key.slice("label:".length)}=${name}` : key === "state" ? `state:${name}` : "";
    if (name && only) link.setAttribute("href", `#/?${new URLSearchParams({ show: only })}`);
    setText(link, name || "(none)");
    return { list, summary, element: h("section", { class: "group" }, h("h2", null, link, " ", summary), list) };
  }

  function drawTile(row) {
    let tile = tiles.get(row.id);
    if (!tile) {
      const mark = h("span", { class: "mark", "aria-hidden": "true" }), name = h("span", { class: "tile-name" });
      const link = h("a", null, mark, name);
      tiles.set(row.id, tile = { mark, name, link, element: h("li", null, link) });
    }
    const recent = isRecent(row);
    setClass(tile.link, `tile ${row.tone}${row.isLast ? " last-known" : ""}${recent ? " recent" : ""}`);
    if (tile.row === row) return tile.element;
    tile.row = row;
    setText(tile.mark, row.isLast ? "◌" : marks[row.tone]);
    setText(tile.name, row.name);
    tile.link.setAttribute("href", hostLink(row));
    const words = [`${fleet.nameOf(row)}: ${row.state}${row.isLast ? " (last known)" : ""}`, row.step, row.problem].filter(Boolean).join(" · ");
    tile.link.title = words;
    tile.link.setAttribute("aria-label", words);
    return tile.element;
  }

  // place brings the children of an element into an order, and moves only those that are elsewhere.
  function place(parent, elements) {
    const stay = new Set(elements);
    for (const child of [...parent.children]) if (!stay.has(child)) child.remove();
    let next = parent.firstChild;
    for (const element of elements) {
      if (next === element) next = next.nextSibling;
      else parent.insertBefore(element, next);
    }
  }

  function draw() {
    const keys = labelKeys(fleet.rows.values());
    drawChoice(keys);
    const key = chosen(keys), text = view.text.toLowerCase();
    const rows = [...fleet.rows.values()].filter((row) => matches(row, text)).sort((a, b) => natural(a.name, b.name) || natural(a.namespace, b.namespace));
    visible = rows.length;
    const members = new Map();
    for (const row of rows) {
      const name = groupOf(row, key);
      if (!members.has(name)) members.set(name, []);
      members.get(name).push(row);
    }
    for (const id of [...tiles.keys()]) if (!fleet.rows.has(id)) tiles.delete(id);
    if (body.dataset.by !== key) groups.clear();
    body.dataset.by = key;
    for (const name of [...groups.keys()]) if (!members.has(name)) groups.delete(name);
    const names = [...members.keys()].sort((a, b) => !a - !b || natural(a, b)); // hosts without the label last
    place(body, names.map((name) => {
      const group = groups.get(name) ?? newGroup(name, key), of = members.get(name);
      groups.set(name, group);
      const problems = of.filter((r) => r.tone === "problem").length, busy = of.filter((r) => r.tone === "busy").length;
      setText(group.summary, [plural(of.length, "host"), problems ? `${problems} with a problem` : "", busy ? `${busy} busy` : ""].filter(Boolean).join(", "));
      place(group.list, of.map(drawTile));
      return group.element;
    }));
    setClass(body, fleet.rows.size > manyHosts ? "map many" : "map");
    empty.hidden = visible > 0;
    setText(empty, fleet.rows.size === 0 ? "There are no hosts yet." : "No host matches.");
  }

  function changed() {
    const query = new URLSearchParams();
    if (view.by) query.set("by", view.by);
    if (view.text) query.set("q", view.text);
    history.replaceState(null, "", `#/map${query.size ? `?${query}` : ""}`);
    draw();
    announce(`${visible} of ${plural(fleet.rows.size, "host")} shown`);
  }

  const tick = setInterval(draw, 60_000); // frames go
  fleet.addEventListener("change", draw);
  draw();
  return () => { clearInterval(tick); fleet.removeEventListener("change", draw); };
}
