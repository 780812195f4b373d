// SPDX-License-Identifier: Apache-2.0

import { openSession } from "./api.js";
import { h, setText, time } from "./dom.js";
import { Fleet } from "./live.js";
import { listen } from "./keys.js";
import { showList } from "./list.js";
import { showMap } from "./map.js";
import { showHost } from "./host.js";
import { showForm } from "./add.js";
import { showConsole } from "./console.js";

const main = document.getElementById("main");
const fleet = new Fleet();
// leave ends what the view that is shown does in the background.
let leave = () => {};
let isFirst = true;
// overview is the address of the list or map that was shown last, with its filter.
let overview = "#/";

// parts decodes the parts of a path. One that was written by hand and cannot be decoded has none, which shows the list.
function parts(path) {
  try {
    return path.split("/").slice(1).map(decodeURIComponent);
  } catch {
    return [];
  }
}

// split returns the path of an address and its query.
const split = (hash) => hash.replace(/^#/, "").split("?");

const isOverview = (path) => !["host", "console", "add"].includes(parts(path)[0]);

// route shows the view that the address names: #/, #/map, #/add, #/host/NAMESPACE/NAME or
// #/console/NAMESPACE/NAME. When the list itself changes its query, as the user filters, there is no event.
function route(event) {
  const [path, query] = split(location.hash);
  const [view, namespace, name] = parts(path);
  const left = event?.oldURL ? new URL(event.oldURL).hash : "";
  if (left && isOverview(split(left)[0])) overview = left;
  leave();
  main.replaceChildren();
  const context = { main, fleet, overview, title: (text) => { document.title = `${text} · Bare metal hosts`; } };
  for (const [id, isShown] of [["to-map", view === "map"], ["to-list", view !== "map" && isOverview(path)]]) {
    const link = document.getElementById(id);
    if (isShown) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  if (view === "host") leave = showHost(context, namespace, name);
  else if (view === "console") leave = showConsole(context, namespace, name);
  else if (view === "add") leave = showForm(context);
  else if (view === "map") leave = showMap(context, new URLSearchParams(query));
  else leave = showList(context, new URLSearchParams(query));
  if (!isFirst) { main.focus({ preventScroll: true }); scrollTo(0, 0); }
  isFirst = false;
}

function showScope() {
  const scope = fleet.scope;
  const where = scope.allNamespaces ? "all namespaces" : `namespace ${scope.namespace}`;
  const selected = scope.selector ? `, only ${scope.selector}` : "";
  const element = document.getElementById("scope");
  setText(element, `${scope.context || scope.server} · ${where}${selected}${scope.readOnly ? " · read-only" : ""}`);
  element.title = scope.server;
}

// showFreshness says whether what is shown is what Ironic says now. It is said twice if not: in the
// header, and in a line that does not scroll away.
function showFreshness() {
  const { live, confirmed, reason } = fleet.freshness;
  const element = document.getElementById("freshness"), stale = document.getElementById("stale");
  setText(element, live ? `● Live · Ironic asked at ${time(confirmed)}` : "◌ Not live");
  element.className = live ? "live" : "not-live";
  document.body.classList.toggle("is-stale", !live);
  if (live || !fleet.isLoaded && !reason) { stale.hidden = true; return; }
  const last = confirmed ? `What is shown was confirmed at ${time(confirmed)} for the last time.` : "What is shown was not confirmed since this page was opened.";
  setText(stale, `Not live: ${reason}. ${last}`);
  stale.hidden = false;
}

async function start() {
  document.getElementById("skip").addEventListener("click", () => main.focus());
  listen(() => overview, () => fleet.scope?.readOnly);
  fleet.addEventListener("freshness", showFreshness);
  try {
    await openSession();
    let isRouted = false;
    fleet.addEventListener("change", () => {
      showScope();
      if (!isRouted) { isRouted = true; route(); addEventListener("hashchange", route); }
    });
    await fleet.run();
  } catch (error) {
    leave();
    main.replaceChildren(h("h2", null, "This page has no access"), h("p", null, error.message), h("p", null, "Start ", h("code", null, "kubectl bmh ui"), " again for another link."));
  }
}

start();
