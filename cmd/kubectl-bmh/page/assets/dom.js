// SPDX-License-Identifier: Apache-2.0

// Building the document. Text from the cluster only ever becomes text nodes and attribute values: no
// function here takes HTML, and the page's Trusted Types policy forbids others.

// h makes an element. Properties that begin with "on" are listeners, true and false add and leave out
// an attribute, and children are nodes or texts; null and undefined are left out.
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== ""));
  return element;
}

// setText changes the text of an element only if it differs, so that nothing is drawn or read aloud again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

let announcing;

// announce has screen readers say something, without moving the focus.
export function announce(text) {
  const announcer = document.getElementById("announcer");
  announcer.textContent = "";
  cancelAnimationFrame(announcing);
  announcing = requestAnimationFrame(() => { announcer.textContent = text; });
}

// duration is how long ago a time was, as kubectl prints it. Clocks differ: the future counts as now.
export function duration(since, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (!Number.isFinite(seconds)) return "";
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return `${minutes}m${seconds % 60 ? `${seconds % 60}s` : ""}`;
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return `${hours}h${minutes % 60 ? `${minutes % 60}m` : ""}`;
  if (days < 2) return `${hours}h`;
  if (days < 8) return `${days}d${hours % 24 ? `${hours % 24}h` : ""}`;
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

// time is a time of day, and a date if it is of another day.
export function time(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : date.toLocaleString();
}

// size is a number of bytes in the units in which memory and disks are sold.
export function size(bytes, base, units) {
  let value = bytes, unit = 0;
  while (value >= base && unit < units.length - 1) { value /= base; unit++; }
  return `${value >= 100 ? Math.round(value) : Math.round(value * 10) / 10} ${units[unit]}`;
}

export const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
