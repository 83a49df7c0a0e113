// The events: the last ones, then live, with filters that the node applies.

import { h } from "./dom.js";
import { eventList } from "./event-list.js";
import { eventsFilter } from "./filters.js";
import { KINDS } from "./kinds.js";

const TYPING = 250;

export function open(query, go) {
  const list = eventList("Events", { most: 200 });
  const field = (label, name, hint) => h("label", {}, label,
    h("input", { name, type: "search", autocomplete: "off", spellcheck: "false", placeholder: hint }));
  const boxes = KINDS.map((kind) => h("label", { class: "box" }, h("input", { type: "checkbox", name: "types", value: kind }), kind));
  const form = h("form", {
    class: "filters", role: "search", "aria-label": "Events", oninput: tell, onsubmit: (event) => event.preventDefault(),
    onreset: (event) => {
      event.preventDefault();
      go("events", {});
    },
  }, field("Key begins with", "prefix", "jobs/"), field("Owner, before or after", "owner", "worker-1"), field("Pool", "pool", "default"),
  h("details", { open: Boolean(query.types) }, h("summary", {}, "Kinds of changes"), h("fieldset", {}, h("legend", { class: "unseen" }, "Kinds"), boxes)),
  h("button", { type: "reset" }, "Clear"));
  const inputs = [...form.elements].filter(({ type }) => type === "search");
  const kinds = [...form.elements].filter(({ type }) => type === "checkbox");
  let [typing, followed] = [0, ""];

  function tell() {
    const texts = Object.fromEntries(inputs.map(({ name, value }) => [name, value]));
    go("events", { ...texts, types: kinds.filter(({ checked }) => checked).map(({ value }) => value).join() });
  }

  function follow() {
    const filter = eventsFilter(query);
    if (JSON.stringify(filter) === followed) return;
    followed = JSON.stringify(filter);
    list.follow(filter);
  }

  function show() {
    for (const input of inputs) {
      if (input !== document.activeElement || !query[input.name]) input.value = query[input.name] ?? "";
    }
    const on = (query.types ?? "").split(",");
    for (const box of kinds) box.checked = on.includes(box.value);
  }

  function update(wanted) {
    query = wanted;
    show();
    clearTimeout(typing);
    typing = setTimeout(follow, TYPING);
  }
  show();
  follow();
  const element = h("section", { "aria-labelledby": "events-title" }, h("h1", { id: "events-title" }, "Events"), form,
    h("div", { id: "events" }, list.element));
  return {
    element, update, title: "Events", focus: () => inputs[0].focus(),
    close: () => {
      clearTimeout(typing);
      list.stop();
    },
  };
}
