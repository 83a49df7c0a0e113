// The nodes of the store.

import { get } from "./api.js";
import { badge, h, say, text, until } from "./dom.js";
import { repeat } from "./repeat.js";
import { table } from "./table.js";
import { grouped, host } from "./text.js";
import { tick } from "./ticks.js";

const TONES = { alive: "good", draining: "warn", drained: "plain", dead: "bad" };

/** A link to the page of another node. Only what is plainly a URL of the web becomes a link. */
function address({ url, this: isThis }) {
  if (!url) return h("span", { class: "quiet" }, "unknown");
  const name = text(host(url));
  const isWeb = /^https?:\/\/[^\s]+$/.test(url);
  return [isWeb && !isThis ? h("a", { href: url, rel: "noreferrer" }, name) : name, isThis && [" ", h("span", { class: "chip" }, "this node")]];
}

export function open(query, go) {
  const list = table("Nodes", [
    { title: "Node", kind: "long", cell: address },
    { title: "State", kind: "short", cell: ({ state }) => badge(state, TONES[state] ?? "plain") },
    { title: "Leases", kind: "n", cell: ({ leases, state }) => (state === "alive" || state === "draining" ? grouped(leases) : "") },
    {
      title: "Record good for", kind: "short",
      cell: ({ runs_out_in_ms: ms }) => (ms === null ? "" : until(Date.now() + ms)),
    },
    { title: "Version", kind: "short", cell: ({ version }) => text(version) },
    { title: "Incarnation", cell: ({ incarnation }) => text(incarnation) },
    {
      title: "Remarks",
      cell: ({ address_shared: shared, rules_differ: differ, access_differs: other }) => [
        shared && badge("another node has this URL", "bad"), differ && badge("other policies or plugins", "bad"),
        other && badge("another access file", "bad"),
      ],
    },
  ]);
  const box = h("input", { type: "checkbox", onchange: () => go("nodes", { all: box.checked ? "1" : "" }) });
  const gone = h("span");
  const says = h("p", { class: "quiet", role: "status" });

  async function work(signal) {
    try {
      const { nodes } = await get("/v1/nodes", signal);
      const lives = ({ state }) => state === "alive" || state === "draining";
      const shown = query.all ? nodes : nodes.filter(lives);
      list.fill(shown, ({ incarnation, url }) => `${incarnation} ${url}`, "No node is known.");
      tick(list.element);
      gone.textContent = `Also those that left or died (${nodes.filter((node) => !lives(node)).length})`;
      say(says, "");
    } catch (error) {
      if (!signal.aborted) say(says, error.status === 403 ? "You may not see the nodes: that needs the right “observe”." : `Not up to date: ${error.message}`);
    }
  }
  list.clear("loading…");
  const loop = repeat(work, () => 3000);
  function update(wanted) {
    query = wanted;
    box.checked = Boolean(query.all);
    loop.now();
  }
  update(query);
  const element = h("section", { "aria-labelledby": "nodes-title" }, h("h1", { id: "nodes-title" }, "Nodes"),
    h("p", {}, h("label", { class: "box" }, box, gone)), says, list.element);
  return { element, update, title: "Nodes", close: () => loop.stop() };
}
