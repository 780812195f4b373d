// SPDX-License-Identifier: Apache-2.0

// Requests to kubectl bmh, which forwards some of them to the cluster.

const keyName = "bmh-key";

// RequestError is a refusal, in the words of the cluster or of kubectl bmh.
export class RequestError extends Error {
  constructor(code, message, causes) {
    super(message);
    this.code = code;
    // causes are [{field, message}] for the fields that are invalid.
    this.causes = causes ?? [];
  }
}

// openSession exchanges the link in the address, if there is one, for a session, and removes it from the
// address and the history.
export async function openSession() {
  const link = /^#link=(.+)$/.exec(location.hash)?.[1];
  if (!link) return;
  history.replaceState(null, "", location.pathname + "#/");
  const answer = await send("POST", "/session", { link });
  localStorage.setItem(keyName, answer.key);
}

// clean shows what controls a terminal into which text is copied, or turns the direction of text, as a
// replacement character.
const hidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const clean = (text) => text.replace(hidden, "\ufffd");

// parse parses JSON with texts from outside.
export const parse = (text) => JSON.parse(text, (_, value) => (typeof value === "string" ? clean(value) : value));

export const key = () => localStorage.getItem(keyName) ?? "";

export function headers() {
  return { "X-Bmh-Key": key() };
}

// send makes a request and returns the answer. It throws a RequestError.
export async function send(method, path, body) {
  const request = { method, headers: headers(), redirect: "error" };
  if (body !== undefined) {
    request.headers["Content-Type"] = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    request.body = JSON.stringify(body);
  }
  let response, text;
  try {
    response = await fetch(path, request);
    text = await response.text();
  } catch {
    throw new RequestError(0, "kubectl bmh ui does not answer: has it ended?");
  }
  let answer = {};
  try { answer = parse(text); } catch { answer = { message: clean(text.slice(0, 1000)) }; }
  if (!response.ok) throw new RequestError(response.status, answer.message || `the answer is ${response.status}`, answer.details?.causes);
  return answer;
}

// The paths of kubectl bmh. Names are checked by the server, and are escaped all the same.
const part = encodeURIComponent;
export const hostsPath = (namespace) => `/api/namespaces/${part(namespace)}/baremetalhosts`;
export const hostPath = (host) => `${hostsPath(host.namespace)}/${part(host.name)}`;
export const secretsPath = (namespace) => `/api/namespaces/${part(namespace)}/secrets`;
export const detailPath = (namespace, name) => `/hosts/${part(namespace)}/${part(name)}`;

const known = new Map();

// rightsIn returns what the user may do in a namespace. It is asked for once a minute at most.
export function rightsIn(namespace) {
  const old = known.get(namespace);
  if (old && Date.now() - old.at < 60_000) return old.rights;
  const rights = send("GET", `/rights/${part(namespace)}`);
  known.set(namespace, { at: Date.now(), rights });
  rights.catch(() => known.delete(namespace));
  return rights;
}

// inParallel calls a function for each of some items, at most eight at a time, until isStopped. It returns the items for which
// nothing was called.
export async function inParallel(items, call, isStopped) {
  const queue = [...items];
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (queue.length && !isStopped()) await call(queue.shift());
  }));
  return queue;
}
