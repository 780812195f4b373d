// SPDX-License-Identifier: Apache-2.0

import { h } from "./dom.js";

let number = 0;

// field makes a labelled input. Its element has a place for a mistake.
export function field({ label, name, type = "text", value = "", hint, options, required, autocomplete = "off" }) {
  const id = `field-${++number}`;
  const input = options
    ? h("select", { id, name }, options.map(([v, text]) => h("option", { value: v, selected: v === value }, text)))
    : h("input", { id, name, type, value: type === "checkbox" ? null : value, checked: type === "checkbox" && value, required, autocomplete, spellcheck: "false" });
  const mistake = h("p", { class: "mistake", id: `${id}-mistake` });
  const parts = [h("label", { for: id }, label), input, hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null, mistake];
  input.setAttribute("aria-describedby", [hint ? `${id}-hint` : "", `${id}-mistake`].join(" ").trim());
  if (type === "checkbox") parts.splice(0, 2, input, parts[0]);
  return {
    name, input,
    element: h("div", { class: type === "checkbox" ? "field check" : "field" }, parts),
    get value() { return type === "checkbox" ? input.checked : input.value.trim(); },
    setMistake(text) {
      mistake.textContent = text;
      input.toggleAttribute("aria-invalid", false);
      if (text) input.setAttribute("aria-invalid", "true");
    },
  };
}

// ask shows a dialog, and calls act when the user agrees. The dialog stays open with the error if act throws. If act does
// something for many hosts, it says with setProgress how far it is, which makes a button of "Cancel" that ends it (isStopped). ask
// returns whether act has been done.
export function ask({ title, content = [], fields = [], button, isDangerous = false, act }) {
  return new Promise((resolve) => {
    let isDone = false, isStopped = false, canStop = false;
    const back = document.activeElement;
    const heading = `dialog-${++number}`;
    const error = h("p", { class: "mistake", role: "alert" }), progress = h("p", { class: "hint" });
    const agree = h("button", { type: "submit", class: isDangerous ? "danger" : "primary" }, button);
    const cancel = h("button", { type: "button", onclick: cancelOrStop }, "Cancel");
    const form = h("form", { novalidate: true, onsubmit: submit }, h("h2", { id: heading }, title), content, fields.map((f) => f.element), error, progress, h("p", { class: "buttons" }, cancel, agree));
    const dialog = h("dialog", { "aria-labelledby": heading }, form);
    function cancelOrStop() {
      if (!canStop) return dialog.close();
      isStopped = cancel.disabled = true;
    }
    async function submit(event) {
      event.preventDefault();
      if (agree.disabled) return;
      agree.disabled = true;
      error.textContent = "";
      for (const f of fields) f.setMistake("");
      try {
        await act({ form, isStopped: () => isStopped, setProgress: (text) => { canStop = true; progress.textContent = text; cancel.textContent = "Stop"; }, setContent: (...nodes) => { form.replaceChildren(form.firstChild, ...nodes, h("p", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close"))); } });
        isDone = true;
        if (form.contains(agree)) dialog.close();
        else form.querySelector(".buttons button").focus();
      } catch (e) {
        error.textContent = e.message;
        agree.disabled = false;
      }
    }
    dialog.addEventListener("close", () => {
      isStopped = true;
      dialog.remove();
      if (back?.isConnected) back.focus();
      resolve(isDone);
    });
    document.body.append(dialog);
    dialog.showModal();
    // What destroys something is not what Enter does by accident.
    (fields[0]?.input ?? (isDangerous ? cancel : agree)).focus();
  });
}
