// SPDX-License-Identifier: Apache-2.0

import { actions, run } from "./actions.js";
import { clean, detailPath, rightsIn, send } from "./api.js";
import { announce, duration, h, plural, setText, size, time } from "./dom.js";
import { powerText, showState } from "./list.js";

// life is the way of a host, for the line of steps at the top.
const life = ["registering", "inspecting", "preparing", "available", "provisioning", "provisioned"];

// The pauses between two reads of a host: the shortest, and the longest, after which there may be
// other events even though the host itself has not changed.
const shortest = 1000, longest = 15_000;

const binary = ["B", "KiB", "MiB", "GiB", "TiB"], decimal = ["B", "kB", "MB", "GB", "TB", "PB"];

// day is how much of the past the bars of operations show, in milliseconds.
const day = 86_400_000;

export function showHost({ main, fleet, title, overview }, namespace, name) {
  const called = fleet.nameOf({ namespace, name });
  title(called);
  const heading = h("h2", null, called);
  const state = h("p", { class: "big" }), stateText = h("span"), sinceText = h("span", { class: "since" });
  state.append(stateText, sinceText);
  const steps = h("ol", { class: "life", "aria-label": "Where the host is" }, life.map((s) => h("li", null, s)));
  const bar = h("progress", { max: 1, hidden: true, "aria-label": "Steps that Ironic has done" }), step = h("span");
  const error = h("p", { class: "mistake", role: "alert" }), readError = h("p", { class: "mistake" });
  const buttons = h("div", { class: "actions", role: "group", "aria-label": `What to do with ${called}` });
  const section = (id, text) => { const body = h("div"); return { body, element: h("section", { "aria-labelledby": id }, h("h3", { id }, text), body) }; };
  const explanation = section("explanation", "Now"), facts = section("facts", "Facts"), conditions = section("conditions", "Conditions");
  const hardware = section("hardware", "Hardware"), timeline = section("timeline", "What has happened");
  const operations = section("operations", "What took how long"), source = section("source", "For a terminal");
  main.append(
    h("p", { class: "back" }, h("a", { href: overview }, "All hosts")),
    h("div", { class: "title" }, heading, state), steps, h("p", { class: "progress" }, bar, " ", step), readError, error, buttons,
    h("div", { class: "columns" }, explanation.element, facts.element, conditions.element, timeline.element, operations.element, hardware.element, source.element));

  let detail = null, row = null, rights = {}, timer = 0, last = 0, isGone = false, isLeft = false, wasInFleet = false;
  const cache = new Map();
  // fill replaces what is in a section if its data have changed: nobody who reads it loses the place.
  const fill = (body, data, nodes) => {
    const text = JSON.stringify(data);
    if (cache.get(body) === text) return;
    cache.set(body, text);
    body.replaceChildren(...nodes().filter(Boolean));
  };

  function drawRow() {
    const found = fleet.find(namespace, name);
    // A host that was just created, or that is not selected, is not in the list either. Only the answer to a read says that one is gone.
    if (!found && wasInFleet) readSoon(0);
    row = found ?? detail;
    wasInFleet = Boolean(found);
    if (!row) return;
    isGone = false;
    showState(stateText, row);
    setText(sinceText, row.since ? ` for ${duration(row.since)}` : "");
    const at = life.indexOf(row.state);
    steps.hidden = at < 0;
    [...steps.children].forEach((item, i) => {
      item.className = i < at ? "done" : i === at ? "now" : "";
      if (i === at) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
    });
    setText(step, row.step ?? "");
    bar.hidden = !row.fraction;
    if (row.fraction) bar.value = row.fraction;
    if (detail?.version !== row.version) readSoon(shortest);
  }

  function gone() {
    if (isGone) return;
    isGone = true;
    stateText.replaceChildren(detail ? "This host was deleted." : "There is no such host.");
    row = detail = null; // or the next change of another host would show it once more
    stateText.className = "";
    setText(sinceText, "");
    steps.hidden = bar.hidden = true;
    setText(step, "");
    buttons.replaceChildren();
    cache.delete(buttons);
  }

  function readSoon(pause) {
    clearTimeout(timer);
    timer = setTimeout(read, Math.max(0, last + pause - Date.now()));
  }

  async function read() {
    last = Date.now();
    if (!document.hidden) {
      try {
        const answer = await send("GET", detailPath(namespace, name));
        if (isLeft) return;
        detail = answer;
        readError.textContent = "";
        drawRow();
        drawDetail();
      } catch (e) {
        if (isLeft) return;
        if (e.code === 404) gone(); else readError.textContent = e.message;
      }
    }
    if (!isLeft && !isGone) readSoon(row && detail && row.version !== detail.version ? shortest : longest);
  }

  function drawDetail() {
    const d = detail;
    drawActions();
    fill(explanation.body, [d.explanation, d.missing], () => [...d.explanation.map((text) => h("p", null, text)), ...(d.missing ?? []).map((text) => h("p", { class: "hint" }, `Without ${text}`))]);
    const lines = [
      ["Namespace", d.namespace], ["Power", powerText(d.power)], ["Asked to be", d.online ? "on" : "off"], ["BMC", d.bmc], ["Boot MAC address", d.bootMAC], ["Boot mode", d.bootMode],
      ["Image", d.image], ["Consumer", d.consumer], ["Machine", d.machine], ["Node", d.node], ["Description", d.description],
      ["Ironic", d.ironic], ["Ironic’s state", d.ironicState], ["Node in Ironic", d.nodeUUID], ["Created", d.created && time(d.created)],
      ["Labels", Object.entries(d.labels ?? {}).map(([k, v]) => `${clean(k)}=${v}`).join(" ")],
    ].filter(([, value]) => value);
    fill(facts.body, lines, () => [h("dl", null, lines.map(([k, v]) => [h("dt", null, k), h("dd", null, v)]))]);
    fill(conditions.body, d.conditions, () => [h("ul", { class: "conditions" }, d.conditions.map((c) => h("li", { class: c.isBad ? "bad" : null },
      h("span", { "aria-hidden": "true", class: "mark" }, c.isBad ? "▲" : "·"), " ", c.text, " ", h("small", null, `${c.type}, since ${time(c.since)}`), c.isBad && c.message ? h("p", null, c.message) : null)))]);
    fill(timeline.body, d.timeline, () => [d.timeline.length ? h("ol", { class: "timeline" }, d.timeline.map((e) => h("li", { class: e.isWarning ? "bad" : null },
      h("time", { datetime: e.time }, time(e.time)), " ", h("span", { "aria-hidden": "true", class: "mark" }, e.isWarning ? "▲" : "·"), " ", h("b", null, e.title), e.isWarning ? h("span", { class: "unseen" }, " (warning)") : null,
      " ", h("small", null, `${e.source}${e.count > 1 ? `, ${e.count} times` : ""}`), h("p", null, e.message)))) : h("p", { class: "hint" }, "Nothing was recorded, or it was too long ago: events last for an hour.")]);
    fill(operations.body, [d.operations, Math.floor(Date.now() / 60_000)], () => operationsOf(d.operations));
    fill(hardware.body, d.hardware ?? null, () => hardwareOf(d.hardware));
    drawSource(d);
  }

  // drawSource leaves the YAML open, and the place in it, while it changes.
  function drawSource(d) {
    fill(source.body, d.commands, () => [
      h("ul", { class: "commands" }, d.commands.map((text) => h("li", null, h("code", null, text), " ", copyButton(() => text, `Copy ${text}`)))),
      h("details", null, h("summary", null, "YAML"), copyButton(() => detail?.yaml ?? "", "Copy the YAML"), h("pre", { tabindex: "0", "aria-label": `YAML of ${called}` })),
    ]);
    setText(source.body.querySelector("pre"), d.yaml);
  }

  function copyButton(text, label) {
    return h("button", { type: "button", "aria-label": label, onclick: async () => {
      try { await navigator.clipboard.writeText(text()); announce("Copied"); } catch { announce("The browser does not permit copying"); }
    } }, "Copy");
  }

  function drawActions() {
    const d = detail;
    const wanted = actions.map((a) => {
      const reason = fleet.scope.readOnly ? "this page is read-only" : rights[a.right] === false ? "you may not do that" : a.when?.(d) || "";
      return [a, typeof a.text === "function" ? a.text(d) : a.text, reason];
    });
    const canType = !fleet.scope.readOnly && rights.console !== false;
    fill(buttons, [wanted.map(([a, text, reason]) => [a.name, text, reason]), canType], () => {
      const focused = document.activeElement?.dataset?.action;
      const made = wanted.map(([a, text, reason]) => button(a.name, text, reason, async () => {
        error.textContent = "";
        try { await run(a, detail, called); } catch (e) { error.textContent = e.message; }
        readSoon(200);
      }));
      made.push(canType
        ? h("a", { class: "button", "data-action": "console", href: `#/console/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, "Console")
        : button("console", "Console", fleet.scope.readOnly ? "this page is read-only" : "you may not do that"));
      if (focused) requestAnimationFrame(() => buttons.querySelector(`[data-action="${CSS.escape(focused)}"]`)?.focus());
      return made;
    });
  }

  // button makes a button. One that cannot be used stays reachable by keyboard and says why.
  function button(id, text, reason, act) {
    return h("button", {
      type: "button", "data-action": id, title: reason ? `Not now: ${reason}` : null, "aria-disabled": reason ? "true" : null, "aria-label": reason ? `${text} (not now: ${reason})` : null,
      onclick: () => { if (reason) announce(`${text}: not now, ${reason}`); else act(); },
    }, text);
  }

  const tick = setInterval(() => { if (row?.since) setText(sinceText, ` for ${duration(row.since)}`); }, 1000);
  fleet.addEventListener("change", drawRow);
  drawRow();
  rightsIn(namespace).then((r) => { rights = r; if (detail && !isLeft && !isGone) drawActions(); }, () => {});
  read();
  return () => { isLeft = true; clearInterval(tick); clearTimeout(timer); fleet.removeEventListener("change", drawRow); };
}

// operationsOf draws the last operation of each kind, and where in the last day it was.
function operationsOf(operations) {
  if (!operations.length) return [h("p", { class: "hint" }, "Nothing was recorded.")];
  const now = Date.now(), at = (t) => Math.min(100, Math.max(0, 100 * (1 - (now - Date.parse(t)) / day)));
  return [h("ol", { class: "operations" }, operations.map((o) => {
    const left = at(o.start), width = (o.end ? at(o.end) : 100) - left;
    const bar = h("span", { class: "bar" });
    // The policy of the page forbids the attribute style in HTML, and permits this.
    bar.style.marginInlineStart = `${left}%`;
    bar.style.inlineSize = `${width}%`;
    const isOld = o.end && now - Date.parse(o.end) > day;
    return h("li", null, h("b", null, o.name), " ", h("time", { datetime: o.start }, time(o.start)), " ",
      h("small", null, o.end ? `took ${duration(o.start, Date.parse(o.end))}` : `goes on for ${duration(o.start)}`), h("span", { class: "track", "aria-hidden": "true" }, isOld ? null : bar));
  })), h("p", { class: "hint" }, "The bars show the last 24 hours, until now.")];
}

function hardwareOf(hardware) {
  if (!hardware) return [h("p", { class: "hint" }, "Not known: the host was not inspected.")];
  const { systemVendor: vendor = {}, firmware = {}, cpu = {}, nics = [], storage = [] } = hardware;
  const lines = [
    ["Machine", [vendor.manufacturer, vendor.productName].filter(Boolean).join(" ")], ["Serial number", vendor.serialNumber],
    ["Processors", [plural(cpu.count ?? 0, "core"), cpu.model, cpu.arch, cpu.clockMegahertz ? `${Math.round(cpu.clockMegahertz)} MHz` : ""].filter(Boolean).join(", ")],
    ["Memory", hardware.ramMebibytes ? size(hardware.ramMebibytes * 2 ** 20, 1024, binary) : ""],
    ["Firmware", [firmware.bios?.vendor, firmware.bios?.version, firmware.bios?.date].filter(Boolean).join(" ")], ["Host name", hardware.hostname],
  ].filter(([, value]) => value);
  return [
    h("dl", null, lines.map(([k, v]) => [h("dt", null, k), h("dd", null, v)])),
    table(plural(storage.length, "disk"), ["Name", "Size", "Type", "Model", "Serial number"], storage.map((d) => [d.name, d.sizeBytes ? size(d.sizeBytes, 1000, decimal) : "", d.type, [d.vendor, d.model].filter(Boolean).join(" "), d.serialNumber])),
    table(plural(nics.length, "network interface"), ["Name", "MAC address", "IP address", "Speed", "PXE"], nics.map((n) => [n.name, n.mac, n.ip, n.speedGbps ? `${n.speedGbps} Gbit/s` : "", n.pxe ? "yes" : ""])),
  ];
}

function table(caption, heads, rows) {
  return h("div", { class: "scroll" }, h("table", null, h("caption", null, caption), h("thead", null, h("tr", null, heads.map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", null, rows.map((cells) => h("tr", null, cells.map((c) => h("td", null, c ?? "")))))));
}
