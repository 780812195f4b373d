// SPDX-License-Identifier: Apache-2.0

import { hostPath, key, parse } from "./api.js";
import { announce, h } from "./dom.js";
import { hostLink } from "./list.js";

// The channels of the protocol of kubectl attach, v5.channel.k8s.io.
const stdin = 0, stdout = 1, stderr = 2, status = 3;

const keptLines = 2000;

// maxTyped is how many bytes are sent in a message. The server accepts 64 KiB.
const maxTyped = 32 << 10;

// Screen keeps what a machine writes to its serial line, as lines of text. It understands what boot loaders,
// kernels and shells use; for programs that fill the screen there is kubectl bmh console.
export class Screen {
  lines = [""];
  column = 0;
  #escape = "";

  write(text) {
    for (const c of text) this.#put(c);
    if (this.lines.length > keptLines) this.lines.splice(0, this.lines.length - keptLines);
  }

  #put(c) {
    if (this.#escape) return this.#control(c);
    const last = this.lines.length - 1;
    if (c === "\x1b") this.#escape = c;
    else if (c === "\n") this.lines.push("");
    else if (c === "\r") this.column = 0;
    else if (c === "\b") this.column = Math.max(0, this.column - 1);
    else if (c === "\t") this.#text(" ".repeat(8 - (this.column % 8)), last);
    else if (c >= " " && c !== "\x7f") this.#text(c, last);
  }

  #text(text, line) {
    const old = this.lines[line].padEnd(this.column);
    this.lines[line] = old.slice(0, this.column) + text + old.slice(this.column + text.length);
    this.column += text.length;
  }

  // control reads a control sequence. Those that clear are obeyed, the others are left out.
  #control(c) {
    this.#escape += c;
    if (this.#escape.length === 2 && c !== "[" && c !== "]" && c !== "(" && c !== ")") this.#escape = "";
    else if (this.#escape.startsWith("\x1b]")) { if (c === "\x07" || this.#escape.endsWith("\x1b\\")) this.#escape = ""; }
    else if (/^\x1b[()]./.test(this.#escape)) this.#escape = "";
    else if (this.#escape.length > 2 && c >= "@" && c <= "~") {
      const line = this.lines.length - 1;
      if (c === "K") this.lines[line] = this.lines[line].slice(0, this.column);
      else if (c === "J" && this.#escape.includes("2")) { this.lines.push(""); this.column = 0; }
      else if (c === "D") this.column = Math.max(0, this.column - (parseInt(this.#escape.slice(2), 10) || 1));
      else if (c === "C") this.column = Math.min(500, this.column + (parseInt(this.#escape.slice(2), 10) || 1));
      this.#escape = "";
    }
    if (this.#escape.length > 200) this.#escape = "";
  }

  toString() { return this.lines.join("\n"); }
}

const arrows = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };

// bytesOf returns what a key sends over a serial line, or nothing for keys of the browser.
function bytesOf(event) {
  if (event.metaKey || event.isComposing) return "";
  if (event.ctrlKey) {
    if (event.shiftKey || event.altKey || event.key.length !== 1) return ""; // Ctrl-Shift-C copies
    const code = event.key.toUpperCase().charCodeAt(0);
    return code >= 64 && code < 96 ? String.fromCharCode(code - 64) : event.key === " " ? "\0" : "";
  }
  const special = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", Delete: "\x1b[3~" }[event.key] ?? (arrows[event.key] ? `\x1b[${arrows[event.key]}` : "");
  if (special || event.key.length === 1) return (event.altKey ? "\x1b" : "") + (special || event.key);
  return "";
}

export function showConsole({ main, fleet, title }, namespace, name) {
  const called = fleet.nameOf({ namespace, name });
  title(`Console of ${called}`);
  const state = h("p", { role: "status", tabindex: "-1" }, "Not connected");
  const output = h("pre", { class: "console", tabindex: "0", role: "textbox", "aria-multiline": "true", "aria-readonly": "false", "aria-label": `Serial console of ${called}. Control and right bracket leaves it.` });
  const connect = h("button", { type: "button", class: "primary", onclick: () => open("") }, "Connect");
  const takeOver = h("button", { type: "button", onclick: () => open("?force=true"), hidden: true }, "Take it over");
  const join = h("button", { type: "button", onclick: () => open("?share=true") }, "Connect, and let others join");
  const end = h("button", { type: "button", onclick: () => socket?.close(), hidden: true }, "Disconnect");
  const back = h("a", { href: hostLink({ namespace, name }) }, called);
  main.append(h("p", { class: "back" }, back), h("h2", null, `Console of ${called}`), state,
    h("p", { class: "buttons start" }, connect, join, takeOver, end), output,
    h("p", { class: "hint" }, "Ctrl-] leaves the console, also with the keyboard. For programs that fill the screen, use ", h("code", null, `kubectl bmh console ${name} -n ${namespace}`), "."));

  let socket = null, frame = 0;
  const screen = new Screen();
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();

  function draw() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      const isAtEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 30;
      output.textContent = screen.toString();
      if (isAtEnd) output.scrollTop = output.scrollHeight;
    });
  }

  function type(text) {
    if (socket?.readyState !== WebSocket.OPEN || !text) return;
    const bytes = encoder.encode(text);
    for (let sent = 0; sent < bytes.length; sent += maxTyped) {
      const part = bytes.subarray(sent, sent + maxTyped);
      const message = new Uint8Array(part.length + 1);
      message[0] = stdin;
      message.set(part, 1);
      socket.send(message);
    }
  }

  function open(query) {
    socket?.close();
    let reason = "";
    const mine = socket = new WebSocket(`ws://${location.host}${hostPath({ namespace, name })}/console${query}`, ["v5.channel.k8s.io", `key.bmh.${key()}`]);
    mine.binaryType = "arraybuffer";
    state.textContent = "Connecting… Ironic takes some seconds for it.";
    connect.hidden = join.hidden = takeOver.hidden = true;
    end.hidden = false;
    mine.onopen = () => { state.textContent = "Connected"; output.focus(); };
    mine.onmessage = ({ data }) => {
      const bytes = new Uint8Array(data);
      if (bytes[0] === stdout || bytes[0] === stderr) { screen.write(decoder.decode(bytes.subarray(1), { stream: true })); draw(); }
      if (bytes[0] === status && bytes.length > 1) try { const s = parse(new TextDecoder().decode(bytes.subarray(1))); if (s.status !== "Success") reason = s.message ?? ""; } catch { /* the connection says enough */ }
    };
    mine.onclose = () => {
      if (mine !== socket) return;
      socket = null;
      state.textContent = `Not connected${reason ? `: ${reason}` : ""}`;
      connect.hidden = join.hidden = false;
      end.hidden = true;
      takeOver.hidden = !reason.includes("in use");
      // Not a button: what the user is typing would press it.
      if (document.activeElement === output) state.focus();
    };
  }

  output.addEventListener("keydown", (event) => {
    if (event.ctrlKey && event.key === "]") { event.preventDefault(); socket?.close(); announce("You have left the console."); (connect.hidden ? back : connect).focus(); return; }
    if (socket?.readyState !== WebSocket.OPEN) return;
    const text = bytesOf(event);
    if (text) { event.preventDefault(); type(text); }
  });
  output.addEventListener("paste", (event) => { event.preventDefault(); type(event.clipboardData.getData("text").replace(/\r?\n/g, "\r")); });
  return () => { const s = socket; socket = null; s?.close(); cancelAnimationFrame(frame); };
}
