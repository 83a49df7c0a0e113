// The keys of the keyboard, and the dialog that lists them. They can be turned off.

import { $, h } from "./dom.js";
import { VIEWS, link } from "./route.js";

// How long the second key after `g` may take, in milliseconds.
const SECOND = 1500;

const KEYS = [
  ["/", "go to the first filter"], ["n", "next page"], ["p", "previous page"], ["r", "read everything again"],
  ["?", "show these keys"], ["Esc", "leave a field, or close a dialog"],
  ...VIEWS.map(([, title, key]) => [`g ${key}`, title.toLowerCase()]),
];

let on = true;

/** Listens. `view()` is the view that is shown; `refresh()` reads everything again. */
export function listen({ view, refresh }) {
  let since = 0;
  const acts = {
    "/": () => view()?.focus?.(),
    "n": () => turn("next"),
    "p": () => turn("previous"),
    "r": refresh,
    "?": help,
    "g": () => (since = performance.now()),
  };
  addEventListener("keydown", (event) => {
    const { key, target } = event;
    const writes = target.closest?.("input, select, textarea");
    if (key === "Escape" && writes && !target.closest("dialog")) target.blur();
    if (!on || writes || target.closest?.("dialog") || event.ctrlKey || event.altKey || event.metaKey) return;
    const place = performance.now() - since < SECOND && VIEWS.find(([, , letter]) => letter === key);
    since = 0;
    if (place) location.hash = link(place[0]);
    else if (acts[key]) acts[key]();
    else return;
    event.preventDefault();
  });
  $("help").addEventListener("click", help);
}

function turn(id) {
  const place = $(id);
  if (place && !place.hidden) place.click();
}

function help() {
  const box = h("input", { type: "checkbox", onchange: () => (on = box.checked) });
  box.checked = on;
  const dialog = h("dialog", { "aria-labelledby": "keys-title" }, h("h2", { id: "keys-title" }, "Keys"),
    h("dl", { class: "keys" }, KEYS.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))),
    h("label", { class: "box" }, box, "These keys are on, until the page is closed"),
    h("p", { class: "tools" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  $("dialogs").append(dialog);
  dialog.showModal();
}
