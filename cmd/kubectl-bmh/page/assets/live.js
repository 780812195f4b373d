// SPDX-License-Identifier: Apache-2.0

import { headers, parse } from "./api.js";

// silence is after which time without a message, in milliseconds, the picture does not count as live.
// kubectl bmh sends one every four seconds at least.
const silence = 12_000;
const pauses = [500, 1000, 2000, 5000];

// Fleet is the picture of all hosts. It dispatches "change" with the ids that have changed, at most once
// per frame, and "freshness".
export class Fleet extends EventTarget {
  rows = new Map();
  scope = null;
  isLoaded = false;
  freshness = { live: false, reason: "the hosts were not received yet" };
  #changed = new Set();
  #frame = 0;
  #abort = null;

  // run keeps the picture up to date as long as the page is visible, so that tabs in the background use
  // none of the few connections that browsers allow.
  async run() {
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.#abort?.abort(); });
    onWaking(() => this.#abort?.abort());
    for (let failures = 0; ; ) {
      await visible();
      try {
        await this.#receive(() => { failures = 0; });
      } catch (error) {
        if (error instanceof SessionError) { this.#setFreshness({ live: false, reason: error.message }); throw error; }
      }
      if (document.hidden) continue;
      this.#setFreshness({ live: false, confirmed: this.freshness.confirmed, reason: "kubectl bmh ui does not answer: has it ended?" });
      await new Promise((resolve) => setTimeout(resolve, pauses[Math.min(failures++, pauses.length - 1)]));
    }
  }

  async #receive(works) {
    const abort = this.#abort = new AbortController();
    let timer;
    const heard = () => { clearTimeout(timer); timer = setTimeout(() => abort.abort(), silence); };
    heard();
    try {
      const response = await fetch("/live", { headers: headers(), signal: abort.signal });
      if (response.status === 401) throw new SessionError((await response.json()).message);
      if (!response.ok) throw new Error(response.statusText);
      // Chunks end anywhere, also within a character.
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "", isFirst = true;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        heard();
        text += value;
        const lines = text.split("\n");
        text = lines.pop();
        for (const line of lines) { this.#apply(parse(line), isFirst); isFirst = false; works(); }
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  // apply changes the picture. The first message of a connection has all hosts.
  #apply(message, isAll) {
    const gone = new Set(message.gone ?? []);
    if (isAll) {
      this.scope = message.scope;
      this.isLoaded = true;
      const there = new Set((message.rows ?? []).map((row) => row.id));
      for (const id of this.rows.keys()) if (!there.has(id)) gone.add(id);
    }
    for (const id of gone) { this.rows.delete(id); this.#changed.add(id); }
    for (const row of message.rows ?? []) { this.rows.set(row.id, row); this.#changed.add(row.id); }
    this.#setFreshness(message.freshness);
    if (isAll || this.#changed.size > 0) this.#frame ||= requestAnimationFrame(() => {
      const changed = this.#changed;
      this.#changed = new Set();
      this.#frame = 0;
      this.dispatchEvent(new CustomEvent("change", { detail: changed }));
    });
  }

  #setFreshness(freshness) {
    this.freshness = freshness;
    this.dispatchEvent(new Event("freshness"));
  }

  // nameOf is what people call a host: two may have the same name, in different namespaces.
  nameOf = (host) => (this.scope.allNamespaces ? `${host.namespace}/${host.name}` : host.name);

  // find returns the host of a name, or undefined.
  find(namespace, name) {
    for (const row of this.rows.values()) if (row.namespace === namespace && row.name === name) return row;
    return undefined;
  }
}

// onWaking calls a function when the computer has been asleep, during which no timer runs.
function onWaking(wake) {
  let last = Date.now();
  document.addEventListener("visibilitychange", () => { last = Date.now(); }); // timers of hidden tabs are late
  setInterval(() => {
    const before = last;
    last = Date.now();
    if (last - before > silence) wake();
  }, 1000);
}

export class SessionError extends Error {}

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}
