// SPDX-License-Identifier: Apache-2.0

import { showMistakes } from "./actions.js";
import { hostsPath, secretsPath, send } from "./api.js";
import { field } from "./dialog.js";
import { announce, h } from "./dom.js";
import { hostLink } from "./list.js";

// showForm shows the form for another host. The cluster checks it by a dry run, at first when a field is
// left, and again before anything is created.
export function showForm({ main, fleet, title }) {
  title("Add a host");
  if (fleet.scope.readOnly) {
    main.append(h("h2", null, "Add a host"), h("p", null, "This page is read-only: start kubectl bmh ui without --read-only to add hosts."), h("p", { class: "back" }, h("a", { href: "#/" }, "All hosts")));
    return () => {};
  }
  const namespace = field({ label: "Namespace", name: "namespace", value: fleet.scope.namespace, required: true });
  namespace.input.readOnly = !fleet.scope.allNamespaces;
  const name = field({ label: "Name", name: "name", required: true, hint: "For example worker-1" });
  const address = field({ label: "Address of the BMC", name: "address", required: true, hint: "For example ipmi://192.168.111.1:6233 or redfish-virtualmedia://192.168.111.1/redfish/v1/Systems/1" });
  const username = field({ label: "User name at the BMC", name: "username", required: true });
  const password = field({ label: "Password at the BMC", name: "password", type: "password", required: true, autocomplete: "new-password", hint: "It is stored in a Secret, and shown nowhere." });
  const mac = field({ label: "MAC address that the machine boots from", name: "mac", hint: "For example 00:ab:4f:d8:9e:fa" });
  const bootMode = field({ label: "Boot mode", name: "bootMode", value: "UEFI", options: [["UEFI", "UEFI"], ["UEFISecureBoot", "UEFI with Secure Boot"], ["legacy", "legacy"]] });
  const insecure = field({ label: "Do not verify the certificate of the BMC", name: "insecure", type: "checkbox", value: false });
  const online = field({ label: "Power on when it is available", name: "online", type: "checkbox", value: true });
  const description = field({ label: "Description", name: "description" });
  const fields = [namespace, name, address, username, password, mac, bootMode, insecure, online, description];
  const byPath = {
    "metadata.name": name, "metadata.namespace": namespace, "spec.bmc.address": address, "spec.bmc.disableCertificateVerification": insecure, "spec.bmc.credentialsName": username,
    "spec.bootMACAddress": mac, "spec.bootMode": bootMode, "spec.online": online, "spec.description": description, "stringData.username": username, "stringData.password": password,
  };
  const error = h("p", { class: "mistake", role: "alert" });
  const create = h("button", { type: "submit", class: "primary", onmousedown: press }, "Add the host");
  const form = h("form", { class: "add", novalidate: true, onsubmit: submit }, h("h2", null, "Add a host"), fields.map((f) => f.element), error, h("p", { class: "buttons" }, h("a", { class: "button", href: "#/" }, "Cancel"), create));
  main.append(form);
  name.input.focus();

  const secretName = () => `${name.value}-bmc-secret`;
  const host = () => ({
    apiVersion: "metal3.io/v1alpha1", kind: "BareMetalHost", metadata: { name: name.value },
    spec: {
      online: online.value, bootMode: bootMode.value, description: description.value || undefined, bootMACAddress: mac.value || undefined,
      bmc: { address: address.value, credentialsName: secretName(), disableCertificateVerification: insecure.value || undefined },
    },
  });
  const secret = () => ({ apiVersion: "v1", kind: "Secret", type: "Opaque", metadata: { name: secretName() }, stringData: { username: username.input.value, password: password.input.value } });
  const dry = "?fieldValidation=Strict&dryRun=All", real = "?fieldValidation=Strict";
  const createHost = (how) => send("POST", hostsPath(namespace.value) + how, host());
  const createSecret = (how) => send("POST", secretsPath(namespace.value) + how, secret());

  let checks = 0, isPressed = false;

  // check has the cluster look at the host as far as it is filled in.
  async function check() {
    if (!name.value || !address.value || !namespace.value) return;
    const mine = ++checks;
    let mistake = null;
    try { await createHost(dry); } catch (e) { mistake = e; }
    if (mine !== checks || create.disabled) return; // there is a later one
    error.textContent = "";
    for (const f of new Set(Object.values(byPath))) f.setMistake("");
    for (const cause of mistake?.causes ?? []) byPath[cause.field]?.setMistake(cause.message);
    if (mistake && !mistake.causes.length) error.textContent = mistake.message;
  }
  form.addEventListener("change", (event) => { if (event.target !== password.input && !isPressed) check(); });

  // press keeps the button below the pointer. A mistake that appears between the press and the release moves
  // the button away, and the browser then sends no click. So the check that is running ends without effect, and
  // none begins because the press has left a field: submit has its own.
  function press() {
    checks++;
    isPressed = true;
    addEventListener("mouseup", () => { isPressed = false; }, { once: true });
  }

  async function submit(event) {
    event.preventDefault();
    if (create.disabled) return;
    create.disabled = true;
    checks++;
    error.textContent = "";
    for (const f of fields) f.setMistake("");
    try {
      const empty = fields.filter((f) => f.input.required && !f.value);
      for (const f of empty) f.setMistake("This is needed.");
      if (empty.length) { empty[0].input.focus(); throw new Error("Please fill in the fields that are marked."); }
      try {
        // Both are checked before one is created.
        await createHost(dry);
        await createSecret(dry);
        await createSecret(real);
        try {
          await createHost(real);
        } catch (e) {
          e.message += ` The Secret ${secretName()} was created already.`;
          throw e;
        }
      } catch (e) {
        showMistakes(e, byPath);
      }
      password.input.value = "";
      announce(`${fleet.nameOf({ namespace: namespace.value, name: name.value })} was added.`);
      location.hash = hostLink({ namespace: namespace.value, name: name.value });
    } catch (e) {
      error.textContent = e.message;
      create.disabled = false;
    }
  }
  return () => { password.input.value = ""; };
}
