// SPDX-License-Identifier: Apache-2.0

import { ask, field } from "./dialog.js";
import { h } from "./dom.js";

// Single keys disturb people who dictate, so they can be switched off.
const storedAs = "bmh-no-keys";
const isOff = () => localStorage.getItem(storedAs) !== null;

const hosts = () => [...document.querySelectorAll("#main tbody th a, #main .tile")];

// step moves the focus to the next or the previous host of a list or a map.
function step(by) {
  const all = hosts(), at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  next?.focus();
}

const goTo = (hash) => () => { location.hash = hash; };

// listen has keys do what the page can do. overview returns the address of the list or map that was shown last.
export function listen(overview, isReadOnly) {
  const keys = [
    ["/", "Go to the filter", () => document.getElementById("filter")?.focus()],
    ["j", "Next host", () => step(1)],
    ["k", "Previous host", () => step(-1)],
    ["l", "List of hosts", goTo("#/")],
    ["m", "Map of hosts", goTo("#/map")],
    ["u", "From a host back to the list or the map", () => { location.hash = overview(); }],
    ["a", "Add a host", () => { if (!isReadOnly()) location.hash = "#/add"; }],
    ["?", "These keys", help],
  ];

  async function help() {
    const use = field({ label: "Use these keys", name: "keys", type: "checkbox", value: !isOff() });
    await ask({
      title: "Keys", button: "Done", fields: [use],
      content: h("table", null, h("thead", { class: "unseen" }, h("tr", null, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "What it does"))),
        h("tbody", null, keys.map(([key, what]) => h("tr", null, h("th", { scope: "row" }, h("kbd", null, key)), h("td", null, what))))),
      act: () => { if (use.value) localStorage.removeItem(storedAs); else localStorage.setItem(storedAs, ""); },
    });
  }

  document.getElementById("keys").addEventListener("click", help);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented || isOff()) return;
    if (event.target.closest?.("input:not([type=checkbox]), select, textarea, dialog, .console")) return;
    const found = keys.find(([key]) => key === event.key);
    if (!found || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    found[2]();
  });
}
