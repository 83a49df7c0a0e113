// What changed most: keys, owners or pools.

import { get } from "./api.js";
import { badge, h, keyLink, say, text } from "./dom.js";
import { path } from "./filters.js";
import { KINDS, tone } from "./kinds.js";
import { repeat } from "./repeat.js";
import { link } from "./route.js";
import { table } from "./table.js";
import { grouped } from "./text.js";
import { span } from "./time.js";

const NAMES = {
  keys: (name) => keyLink(name),
  owners: (owner) => h("a", { class: "text", href: link("leases", { owner }) }, text(owner)),
  pools: (pool) => h("a", { class: "text", href: link("leases", { pool }) }, text(pool)),
};

const choice = (label, name, options) => h("label", {}, label, h("select", { name }, options.map(([value, title]) => h("option", { value }, title))));

export function open(query, go) {
  const list = table("What changed most", [
    { title: "Name", kind: "long", cell: ({ by, name }) => NAMES[by](name) },
    { title: "Pool", cell: ({ pool }) => pool && text(pool) },
    {
      title: "Changes", kind: "n",
      cell: ({ at_least: least, at_most: most }) => (least === most ? grouped(least) : `${grouped(least)} to ${grouped(most)}`),
    },
    {
      title: "By cause",
      cell: ({ changes }) => Object.entries(changes).sort(([, a], [, b]) => b - a).map(([kind, number]) => [badge(kind, tone(kind)), ` ${grouped(number)}  `]),
    },
  ]);
  const form = h("form", { class: "filters", "aria-label": "What is counted", oninput: tell, onsubmit: (event) => event.preventDefault() },
    choice("Count", "by", [["keys", "keys"], ["owners", "owners"], ["pools", "pools"]]),
    choice("Within", "window", [["1m", "1 minute"], ["10m", "10 minutes"], ["60m", "60 minutes"]]),
    choice("Cause", "cause", [["", "every cause"], ...KINDS.map((kind) => [kind, kind])]));
  const says = h("p", { class: "quiet", role: "status" });

  function tell() {
    const { by, window, cause } = Object.fromEntries(new FormData(form));
    go("churn", { by: by === "keys" ? "" : by, window: window === "10m" ? "" : window, cause });
  }

  async function work(signal) {
    const { by = "keys", window = "10m", cause = "" } = query;
    try {
      const top = await get(path("/v1/top", { by, window, cause, limit: 50 }), signal);
      list.fill(top.rows.map((row) => ({ ...row, by: top.by })), ({ name }) => name, "Nothing changed in this time.");
      const others = top.others_at_most ? `Whatever is not listed changed ${grouped(top.others_at_most)} times at most.` : "All are listed.";
      say(says, `The last ${span(top.covers_ms)}, of the whole store as far as this node heard. ${others}`);
    } catch (error) {
      if (!signal.aborted) say(says, `Not up to date: ${error.message}`);
    }
  }
  list.clear("loading…");
  const loop = repeat(work, (took) => Math.max(5000, 20 * took));
  function update(wanted) {
    query = wanted;
    for (const [name, usual] of [["by", "keys"], ["window", "10m"], ["cause", ""]]) form.elements[name].value = query[name] ?? usual;
    loop.now();
  }
  update(query);
  const element = h("section", { "aria-labelledby": "churn-title" }, h("h1", { id: "churn-title" }, "What changes most"), form, says, list.element);
  return { element, update, title: "Churn", focus: () => form.elements.by.focus(), close: () => loop.stop() };
}
