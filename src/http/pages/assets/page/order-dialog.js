// The dialog of an order: what it voids, why it is given, and by whom.

import { Refused, post } from "./api.js";
import { $, announce, h, replace } from "./dom.js";
import { ORDERS, differs, keyOf } from "./orders.js";
import { forgetToken, keepToken, keptToken, person } from "./person.js";
import { may } from "./rights.js";
import { capital, shown } from "./text.js";

/**
 * Asks for an order about a subject: a lease, or `{ owner }`. `again(signal)` reads the subject once more before the order
 * is sent. Resolves with whether it was carried out.
 */
export function order(name, subject, { again } = {}) {
  const { label, fields, path, body, told } = ORDERS[name];
  const title = `${label} ${shown(subject.key ?? subject.owner ?? subject.pool)}?`;
  const voids = h("ul", { class: "voids", id: "order-voids" });
  const sure = h("label", { class: "box", hidden: true }, h("input", { type: "checkbox", name: "sure" }), h("span"));
  const token = tokenField();
  const says = h("p", { role: "alert", class: "says" });
  const submit = h("button", { class: "strong", value: "order" }, label);
  const close = h("button", { type: "button", class: "order-close", onclick: () => dialog.close() }, "Cancel");
  const inputs = fields.map(field);
  const form = h("form", { onsubmit: send, oninput: draw, autocomplete: "off" }, inputs, sure, token, says,
    h("div", { class: "tools" }, submit, close));
  const dialog = h("dialog", { "aria-labelledby": "order-title", "aria-describedby": "order-voids", class: "order" },
    h("h2", { id: "order-title", class: "text" }, title), voids, form);
  let [done, busy] = [false, false];

  function values() {
    const data = new FormData(form);
    return Object.fromEntries(fields.map(({ name: one, check }) => [one, check ? data.has(one) : (data.get(one) ?? "").trim()]));
  }

  function draw() {
    const given = values();
    const lines = ORDERS[name].voids(subject, given);
    if (voids.textContent !== lines.join("")) replace(voids, lines.map((line) => h("li", {}, line)));
    const certain = ORDERS[name].sure?.(subject, given);
    sure.hidden = !certain;
    sure.lastElementChild.textContent = certain ?? "";
    const missing = fields.some(({ name: one, required }) => required && !given[one]);
    const secret = token.querySelector("input[name=token]");
    const unsigned = !token.hidden && !secret.value.trim();
    const verb = ORDERS[name].verb(given);
    const allowed = may(person(), verb, keyOf(ORDERS[name], subject));
    submit.title = allowed ? "" : `This needs the right “${verb}”, which ${shown(person()?.name)} lacks.`;
    submit.disabled = busy || done || missing || unsigned || !allowed || (certain && !sure.firstElementChild.checked);
    if (!allowed) says.textContent = submit.title;
    else if (says.dataset.kind !== "answer") says.textContent = "";
  }

  async function send(event) {
    event.preventDefault();
    if (submit.disabled) return;
    const data = new FormData(form);
    const secret = (data.get("token") ?? "").trim() || keptToken();
    const sent = values();
    busy = true;
    draw();
    try {
      if (again && await changed()) return;
      form.querySelectorAll("input[type=password]").forEach((one) => (one.value = ""));
      const answer = await post(path, body(subject, sent), secret);
      done = true;
      if (secret && data.has("keep")) keepToken(secret);
      say(told(answer ?? {}), "good");
      finish();
    } catch (error) {
      if (error instanceof Refused && error.status === 401) forgetToken();
      say(words(error), "bad");
      if (error instanceof Refused && error.status === 401) token.hidden = false;
    } finally {
      busy = false;
      draw();
    }
  }

  // What the person agreed to was about this owner and this token.
  async function changed() {
    const now = await again();
    const other = differs(subject, now);
    subject = now;
    if (!other) return false;
    sure.firstElementChild.checked = false;
    say("The lease has changed since you opened this. Read again what the order voids, and give it once more.", "bad");
    return true;
  }

  function say(text, tone) {
    says.dataset.kind = "answer";
    says.className = `says ${tone}`;
    says.textContent = text;
  }

  function finish() {
    close.textContent = "Close";
    close.focus();
    announce(says.textContent);
    for (const part of [voids, sure, token, submit, ...inputs]) part.hidden = true;
  }

  draw();
  $("dialogs").append(dialog);
  dialog.showModal();
  (form.querySelector("input:not([type=checkbox])") ?? close).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(done);
    });
  });
}

function field({ name, label, hint, required, most, check, secret }) {
  if (check) return h("label", { class: "box" }, h("input", { type: "checkbox", name }), label);
  const hintId = `hint-${name}`;
  return h("label", {}, capital(label), required ? "" : " (optional)",
    h("input", {
      name, required, maxlength: most, type: secret ? "password" : "text", autocomplete: "off", spellcheck: "false",
      "aria-describedby": hint ? hintId : null,
    }),
    hint && h("span", { class: "quiet", id: hintId }, hint));
}

/** Asks for a token where the browser is known by its cookie, which can only read. */
function tokenField() {
  const who = person();
  const hidden = !who || who.open || !who.cookie || Boolean(keptToken());
  return h("fieldset", { hidden }, h("legend", {}, "Your token"),
    h("label", {}, "Token", h("input", { name: "token", type: "password", autocomplete: "off" }),
      h("span", { class: "quiet" }, "The page's cookie can only read. The token is sent with this order, and stored nowhere.")),
    h("label", { class: "box" }, h("input", { type: "checkbox", name: "keep" }), "Keep it in this tab's memory for 10 minutes"));
}

function words(error) {
  if (!(error instanceof Refused)) return `Nobody knows whether the order arrived: ${error.message}. Look at the events.`;
  const what = error.code ? ` (${error.code})` : "";
  return error.status === 401 ? "The node does not know this token. Nothing was changed." : `Refused: ${error.message}${what}.`;
}
