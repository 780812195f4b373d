// SPDX-License-Identifier: Apache-2.0

import { hostPath, inParallel, rightsIn, send } from "./api.js";
import { ask, field } from "./dialog.js";
import { announce, h, plural } from "./dom.js";

const words = { on: "Power on", off: "Power off", reboot: "Reboot" };
const softWords = { ...words, off: "Shut down" };

// why says why the power of a host is not changed by an action on many of them, or nothing.
function why(row, action, rights) {
  if (!rights.power) return "you may not change its power";
  if (row.state.includes("detached")) return "it is detached";
  if (row.state === "unmanaged") return "it has no BMC";
  if (row.state.includes("delet")) return "it is being deleted";
  if (action === "on" && row.power === "on") return "it is on";
  if (action === "off" && row.power === "off" && !row.online) return "it is off";
  if (action === "reboot" && row.power !== "on") return "it is not on";
  return "";
}


// changePower asks, and then changes the power of hosts. It says which are left out and why, and in the
// end what has become of each. nameOf is what they are called.
export async function changePower(rows, action, mode, nameOf) {
  const namesOf = (some) => h("ul", { class: "names" }, some.map(([row, reason]) => h("li", null, h("b", null, nameOf(row)), reason ? `: ${reason}` : "")));
  const rights = new Map();
  await Promise.all([...new Set(rows.map((r) => r.namespace))].map(async (n) => rights.set(n, await rightsIn(n).catch(() => ({ power: true })))));
  const left = rows.map((r) => [r, why(r, action, rights.get(r.namespace))]);
  const chosen = left.filter(([, reason]) => !reason), out = left.filter(([, reason]) => reason);
  const word = (mode === "soft" ? softWords : words)[action];
  const content = [
    chosen.length ? h("p", null, `${word}: ${plural(chosen.length, "host")} of ${rows.length}.`) : h("p", null, "None of these hosts can be changed so."),
    chosen.length ? namesOf(chosen) : null,
    out.length ? h("p", null, "Left out:") : null, out.length ? namesOf(out) : null,
  ];
  await ask({
    title: `${word}?`, content, button: chosen.length ? `${word} ${plural(chosen.length, "host")}` : "Nothing to do", isDangerous: action !== "on",
    async act({ setContent, setProgress, isStopped }) {
      if (!chosen.length) return;
      const results = [];
      let answered = 0;
      const say = () => setProgress(`${answered} of ${chosen.length} have answered.`);
      say();
      const unasked = await inParallel(chosen, async ([row]) => {
        try {
          await send("POST", `${hostPath(row)}/power`, { spec: mode ? { action, mode } : { action } });
        } catch (error) {
          results.push([row, error.message]);
        }
        answered++;
        say();
      }, isStopped);
      const requested = plural(answered - results.length, "host");
      const stopped = unasked.length ? `Stopped: nothing was requested for ${plural(unasked.length, "host")}.` : "";
      announce(`${word} was requested for ${requested}. ${results.length} were refused, or nobody has answered. ${stopped}`);
      if (!results.length && !unasked.length) return;
      setContent(h("div", null, h("p", null, `Requested for ${requested}.`),
        results.length ? [h("p", null, "These were refused, or nobody has answered:"), namesOf(results)] : null,
        unasked.length ? [h("p", null, stopped), namesOf(unasked)] : null));
    },
  });
}

const post = (action, spec = {}) => (host) => send("POST", `${hostPath(host)}/${action}`, { spec });
const patch = (change) => (host) => send("PATCH", `${hostPath(host)}?fieldValidation=Strict`, { ...change, metadata: { ...change.metadata, uid: host.uid } });
const detached = "baremetalhost.metal3.io/detached";

// actions are what can be done to one host. right is what the user needs; when says whether the host is
// one for it, as a reason why not. Whatever else is against it, the cluster says.
export const actions = [
  { name: "on", text: "Power on", right: "power", when: (d) => d.power === "on" && "it is on", act: post("power", { action: "on" }) },
  { name: "shutdown", text: "Shut down", right: "power", when: (d) => d.power === "off" && "it is off", act: post("power", { action: "off", mode: "soft" }), question: "The operating system is asked to end." },
  { name: "off", text: "Power off", right: "power", when: (d) => d.power === "off" && !d.online && "it is off", act: post("power", { action: "off", mode: "hard" }), question: "The machine is switched off at once, whatever runs on it." },
  { name: "reboot", text: "Reboot", right: "power", when: (d) => d.power?.startsWith("off") && "it is off", act: post("power", { action: "reboot", mode: "soft" }), question: "The machine is restarted." },
  { name: "provision", text: "Provision…", right: "change", when: (d) => (d.image ? "it has an image already" : d.customDeploy ? "its spec has a custom deploy procedure" : d.consumer && `it is used by ${d.consumer}`), run: provision },
  { name: "deprovision", text: "Deprovision…", right: "change", when: (d) => (d.customDeploy ? "its spec has a custom deploy procedure" : !d.image && "it has no image"), act: patch({ spec: { image: null } }), question: (d) => `The image is removed, and the disks are ${d.keepsDisks ? "not " : ""}cleaned.${d.consumer ? ` It is used by ${d.consumer}, which may set the image again.` : ""}`, isDangerous: true, typeName: true },
  { name: "rebuild", text: "Rebuild…", right: "rebuild", when: (d) => d.state !== "provisioned" && "it is not provisioned", act: post("rebuild"), question: "The image is written again. Everything on the root disk is lost.", isDangerous: true, typeName: true },
  { name: "inspect", text: "Inspect", right: "inspect", when: (d) => d.state !== "available" && "it is not available", act: post("inspect"), question: "The machine is rebooted to find out its hardware." },
  { name: "retry", text: "Retry now", right: "retry", when: (d) => d.tone !== "problem" && "nothing has failed", act: post("retry") },
  { name: "maintenance", text: (d) => (d.inMaintenance ? "End maintenance" : "Maintenance…"), right: "maintenance", run: maintenance },
  { name: "locate", text: "Light on", right: "indicator", act: post("indicator", { state: "on" }) },
  { name: "unlocate", text: "Light off", right: "indicator", act: post("indicator", { state: "off" }) },
  { name: "nmi", text: "NMI…", right: "nmi", act: post("nmi", {}), question: "A non-maskable interrupt mostly makes the operating system write a crash dump and restart.", isDangerous: true },
  { name: "detach", text: (d) => (d.isDetached ? "Attach" : "Detach…"), right: "change", act: (d) => patch({ metadata: { annotations: { [detached]: d.isDetached ? null : "" } } })(d), question: (d) => (d.isDetached ? "The host is registered in Ironic again." : "The host is removed from Ironic. The machine goes on as it is.") },
  { name: "delete", text: "Delete…", right: "delete", act: (d) => send("DELETE", hostPath(d), { preconditions: { uid: d.uid } }), question: (d) => `The host is removed from the cluster and from Ironic. ${d.deletion}`, isDangerous: true, typeName: true },
];

// run does an action to a host, after a question if it has one. called is the name under which it is asked about.
export async function run(action, detail, called) {
  if (action.run) return action.run(detail, called);
  const text = typeof action.text === "function" ? action.text(detail) : action.text;
  const title = text.replace("…", "");
  const question = typeof action.question === "function" ? action.question(detail) : action.question;
  const done = (answer) => announce(`${title}: requested for ${called}. ${answer?.status?.message ?? ""}`);
  if (!question) return done(await action.act(detail));
  const typed = action.typeName ? field({ label: `Type the name of the host, ${called}, to go on`, name: "name" }) : null;
  await ask({
    title: `${title} ${called}?`, content: [h("p", null, question)], fields: typed ? [typed] : [], button: title, isDangerous: action.isDangerous,
    async act() {
      if (typed && typed.value !== called) throw new Error(`This is not the name of the host, which is ${called}.`);
      done(await action.act(detail));
    },
  });
}

function provision(detail, called) {
  const url = field({ label: "URL of the image", name: "url", type: "url", hint: "A path that Ironic can reach, for example http://images.example/debian.qcow2", required: true });
  const checksum = field({ label: "Checksum", name: "checksum", hint: "Or the URL of a file with it. Not needed for live-iso and oci://" });
  const checksumType = field({ label: "Type of the checksum", name: "checksumType", value: "auto", options: [["auto", "by its length"], ["sha256", "SHA-256"], ["sha512", "SHA-512"], ["md5", "MD5"]] });
  const format = field({ label: "Format", name: "format", value: "", options: [["", "by Ironic"], ["raw", "raw"], ["qcow2", "qcow2"], ["vmdk", "vmdk"], ["live-iso", "live-iso"]] });
  return ask({
    title: `Provision ${called}`, content: [h("p", null, `${detail.keepsDisks ? "The" : "The disks are cleaned, the"} image is written, and the machine is switched on (spec.online).`)], fields: [url, checksum, checksumType, format], button: "Provision", isDangerous: true,
    async act() {
      const image = { url: url.value };
      if (checksum.value) Object.assign(image, { checksum: checksum.value, checksumType: checksumType.value });
      if (format.value) image.format = format.value;
      try {
        await patch({ spec: { image, online: true } })(detail);
      } catch (error) {
        showMistakes(error, { "spec.image.url": url, "spec.image.checksum": checksum, "spec.image.checksumType": checksumType, "spec.image.format": format });
      }
      announce(`${called} is going to be provisioned.`);
    },
  });
}

async function maintenance(detail, called) {
  if (detail.inMaintenance) {
    await post("maintenance", { action: "off" })(detail);
    return announce(`The maintenance of ${called} has ended.`);
  }
  const reason = field({ label: "Reason, for your colleagues", name: "reason", required: true });
  return ask({
    title: `Maintenance of ${called}`, content: [h("p", null, "Nothing is done to the host until the maintenance is ended.")], fields: [reason], button: "Begin maintenance",
    act: () => post("maintenance", { action: "on", reason: reason.value })(detail),
  });
}

// showMistakes puts the mistakes that the cluster has found beside the fields. It throws an error with the
// others, or with the first one, so that a request that was refused is never taken for done.
export function showMistakes(error, fields) {
  const others = [];
  for (const cause of error.causes ?? []) {
    const f = fields[cause.field];
    if (f) f.setMistake(cause.message); else others.push(`${cause.field ? `${cause.field}: ` : ""}${cause.message}`);
  }
  if (!error.causes?.length) throw error;
  const first = Object.values(fields).find((f) => f.input.getAttribute("aria-invalid"));
  first?.input.focus();
  throw new Error(others.join(" ") || "Please correct the fields that are marked.");
}
