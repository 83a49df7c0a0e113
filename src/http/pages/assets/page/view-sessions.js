// The sessions: who holds leases by a heartbeat of its own.

import { get } from "./api.js";
import { h, say, text, until, when } from "./dom.js";
import { sessionsPath } from "./filters.js";
import { ORDERS } from "./orders.js";
import { order } from "./order-dialog.js";
import { person } from "./person.js";
import { repeat } from "./repeat.js";
import { may } from "./rights.js";
import { link } from "./route.js";
import { table } from "./table.js";
import { count, grouped, host } from "./text.js";
import { tick } from "./ticks.js";
import { span } from "./time.js";

export function open(query, go) {
  const list = table("Sessions", [
    { title: "Owner", kind: "long", cell: ({ owner }) => text(owner) },
    { title: "Session", cell: ({ digest }) => h("a", { class: "text", href: link("leases", { session: digest }), title: digest }, digest) },
    { title: "Leases", kind: "n", cell: ({ leases }) => (leases ? grouped(leases.count) : h("span", { class: "quiet" }, "at its node")) },
    {
      title: "Time left",
      cell: ({ expires_in_ms: ms }) => (ms === null ? h("span", { class: "quiet", title: "Only its home node knows." }, "known at its node") : until(Date.now() + ms)),
    },
    { title: "Ttl", kind: "short", cell: ({ ttl_ms: ms }) => span(ms) },
    { title: "Pool", cell: ({ pool }) => pool && h("a", { class: "text", href: link("pools", { pool }) }, text(pool)) },
    { title: "Checks", cell: ({ checks }) => checks.map(({ type }) => type).join(", ") },
    { title: "Opened", kind: "short", cell: ({ created_at: at }) => when(at) },
    { title: "Node", cell: ({ node }) => node && text(host(node)) },
    {
      title: "Orders",
      cell: ({ owner }) => may(person(), "admin", "") && h("button", { type: "button", class: "small", onclick: () => drain(owner) }, `${ORDERS.drain.label}…`),
    },
  ]);
  const owner = h("input", { name: "owner", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "worker-1" });
  const form = h("form", {
    class: "filters", role: "search", "aria-label": "Sessions", onsubmit: (event) => event.preventDefault(),
    oninput: () => go("sessions", { owner: owner.value }),
  }, h("label", {}, "Owner", owner));
  const says = h("p", { class: "quiet", role: "status" });
  const [first, next] = ["First page", "Next page"].map((title) => h("a", { class: "button", hidden: true }, title));

  async function drain(name) {
    await order("drain", { owner: name });
    loop.now();
  }

  async function work(signal) {
    try {
      const page = await get(sessionsPath(query), signal);
      list.fill(page.sessions, ({ digest }) => digest, query.owner ? "No session has this owner." : "No session is open.");
      tick(list.element);
      say(says, `${count(page.sessions.length, "session", "sessions")} on this page`);
      first.hidden = !query.after;
      first.setAttribute("href", link("sessions", { owner: query.owner }));
      next.hidden = !page.next;
      if (page.next) next.setAttribute("href", link("sessions", { owner: query.owner, after: page.next }));
    } catch (error) {
      if (!signal.aborted) say(says, `Not up to date: ${error.message}`);
    }
  }
  list.clear("loading…");
  const loop = repeat(work, (took) => Math.max(5000, 20 * took));

  function update(wanted) {
    query = wanted;
    if (owner !== document.activeElement) owner.value = query.owner ?? "";
    loop.now();
  }
  update(query);
  const element = h("section", { "aria-labelledby": "sessions-title" }, h("h1", { id: "sessions-title" }, "Sessions"), form,
    h("nav", { class: "tools", "aria-label": "Pages of sessions" }, first, next, says), list.element);
  return { element, update, title: "Sessions", focus: () => owner.focus(), close: () => loop.stop() };
}
