// One lease: what it is now, who had it before and why they lost it, its events, and orders.

import { Refused, get } from "./api.js";
import { watch } from "./connection.js";
import { badge, h, replace, say, text, when } from "./dom.js";
import { eventTable } from "./event-list.js";
import { Feed, told } from "./feed.js";
import { path } from "./filters.js";
import { ORDERS, keyOf } from "./orders.js";
import { order } from "./order-dialog.js";
import { person } from "./person.js";
import { repeat } from "./repeat.js";
import { may } from "./rights.js";
import { link } from "./route.js";
import { table } from "./table.js";
import { count, host, shown } from "./text.js";
import { tick } from "./ticks.js";
import { span } from "./time.js";
import { timeLeft } from "./view-leases.js";
import { tone } from "./kinds.js";

// The page is read again after this time, in milliseconds; sooner after an event.
const CALM = 5000;
const SOON = 300;
const KEY_ORDERS = ["revoke", "transfer", "pin", "unpin", "fence-retry", "fence-skip", "forget"];

const TENURES = [
  { title: "Owner", kind: "long", cell: ({ owner }) => text(owner) },
  { title: "Token", kind: "n", cell: ({ token }) => String(token) },
  { title: "Began", kind: "short", cell: ({ began }) => when(began) ?? h("span", { class: "quiet" }, "before what is kept") },
  { title: "Held for", kind: "short", cell: ({ held_ms: ms }) => span(ms) || "unknown" },
  { title: "Ended", kind: "short", cell: ({ end, ended }) => (end ? [badge(end, tone(end)), " ", when(ended)] : badge("goes on", "good")) },
  { title: "Why", cell: ({ reason }) => reason && text(reason) },
  { title: "Ordered by", cell: ({ actor }) => actor && text(actor) },
  { title: "Session", cell: ({ session }) => session && sessionLink(session) },
];

const sessionLink = (session) => h("a", { class: "text", href: link("leases", { session }), title: session }, session);

const leasePath = (key, pairs = {}) => path(`/v1/leases/${encodeURIComponent(key)}`, pairs);

/** The facts of a lease, as pairs of a name and what is shown. */
function facts(lease, failed) {
  const queue = lease.waiters
    ? [count(lease.waiters, "caller waits", "callers wait"), " for the key"]
    : "nobody waits";
  return [
    ["State", [badge(lease.state), lease.pinned && h("span", { class: "chip" }, "pinned")]],
    ["Owner", lease.owner ? text(lease.owner) : h("span", { class: "quiet" }, "nobody")],
    lease.offered_to && ["Reserved for", text(lease.offered_to)],
    ["Token", lease.token ? `${lease.token}${lease.state === "held" ? "" : " (the last one)"}` : "none yet"],
    lease.state === "held" && ["Held since", when(lease.acquired_at)],
    ["Time left", timeLeft(lease) || "does not end by itself"],
    lease.ttl_ms && ["Ttl", span(lease.ttl_ms)],
    lease.session && ["Session", sessionLink(lease.session)],
    ["Queue", queue],
    ["Fences", (lease.fences ?? []).length ? fences(lease, failed) : "none is pending"],
    ["Pool", h("a", { href: link("leases", { pool: lease.pool }) }, shown(lease.pool))],
    ["Home node", lease.node ? text(host(lease.node)) : h("span", { class: "quiet" }, "not known here yet")],
    ["Value", lease.value === null ? h("span", { class: "quiet" }, "none") : value(lease.value)],
  ].filter(Boolean);
}

function fences(lease, { reason: reasons, help }) {
  const states = lease.fence_failed ? badge("failed", "bad") : badge("not confirmed yet", "warn");
  const former = lease.former_owner && [" against ", text(lease.former_owner)];
  return [states, " ", text(lease.fences.join(", ")), former, reasons && h("p", { class: "bad" }, text(reasons)),
    help && h("p", { class: "quiet" }, text(help))];
}

// Line breaks and tabs of a value are shown as such.
const value = (content) => h("pre", { class: "value" }, content.split(/(\r?\n|\t)/).map((part, at) => (at % 2 ? part : shown(part))));

export function open(query, go) {
  const key = query.key ?? "";
  const now = h("dl", { class: "facts", id: "facts" });
  const orders = h("div", { class: "tools", id: "orders" });
  const says = h("p", { class: "quiet", role: "status" });
  const past = table("Owners of the key, the latest first", TENURES);
  const list = eventTable(`Events of ${shown(key)}`, ["Key"]);
  const more = h("p", { class: "quiet" });
  const gate = h("pre", { class: "value" });
  let [lease, fences, called] = [null, [], ""];

  async function work(signal) {
    try {
      const [found, history] = await Promise.all([
        get(leasePath(key), signal), get(path("/v1/history", { key, limit: 40 }), signal),
      ]);
      lease = found;
      say(says, "");
      draw();
      past.fill(history.tenures, ({ token, began }) => `${token} ${began}`, "No tenure is told of by the events that are kept.");
      list.fill(history.events.map(told), ({ id }) => id, "No event of the key is kept.");
      more.textContent = history.complete ? "This is the whole history of the key." : "Earlier tenures may not be listed: at most 40 events are read.";
    } catch (error) {
      if (signal.aborted) return;
      const unknown = error instanceof Refused && error.code === "unknown-key";
      say(says, unknown ? "The store has no record of this key." : `Not up to date: ${error.message}`);
      if (unknown && !lease) past.clear("");
    }
  }

  /** What needs a person about the lease. Where many keys failed alike, one entry stands for the keys of the pool. */
  function failed() {
    if (!lease?.fence_failed) return {};
    return fences.find((one) => one.key === key) ?? fences.find((one) => !one.key && one.pool === lease.pool) ?? {};
  }

  function draw() {
    replace(now, facts(lease, failed()).map(([name, shown]) => h("div", {}, h("dt", {}, name), h("dd", {}, shown))));
    tick(now);
    const fit = KEY_ORDERS.filter((name) => {
      const { fits, verb } = ORDERS[name];
      return fits(lease) && may(person(), verb({}), keyOf(ORDERS[name], lease));
    });
    // A button that has the focus stays.
    if (fit.join() === called) return;
    called = fit.join();
    replace(orders, fit.map((name) => h("button", { type: "button", "data-order": name, onclick: () => give(name) }, `${ORDERS[name].label}…`)));
  }

  async function give(name) {
    await order(name, lease, { again: (signal) => get(leasePath(key), signal) });
    loop.now();
  }

  let [timer, took] = [0, 0];
  past.clear("loading…");
  list.clear("loading…");
  const loop = repeat(work, (ms) => Math.max(CALM, 20 * (took = ms)));
  // An event only says that there is something to read: the history has it, and those of longer keys are left out.
  const feed = new Feed({ prefix: key }, 0, ({ events }) => {
    if (!events.some(({ data }) => data.key === key)) return;
    timer ||= setTimeout(() => {
      timer = 0;
      loop.now();
    }, Math.max(SOON, 20 * took));
  });
  const unwatch = watch(({ status }) => {
    const before = failed();
    fences = status?.attention.filter((one) => one.kind === "fence-failed") ?? [];
    const found = failed();
    if (lease && (found.reason !== before.reason || found.help !== before.help)) draw();
  });

  const details = h("details", { ontoggle: readGate }, h("summary", {}, "Gate: the condition for a write of your own into the same store"), gate);
  async function readGate() {
    if (!details.open) return;
    gate.textContent = "loading…";
    try {
      const { gate: condition } = await get(leasePath(key, { gate: 1 }));
      gate.textContent = condition ? JSON.stringify(condition, null, 2) : "Nobody holds the key, so there is none.";
    } catch (error) {
      gate.textContent = `Not known: ${error.message}`;
    }
  }

  const element = h("section", { "aria-labelledby": "lease-title" },
    h("p", {}, h("a", { href: link("leases"), onclick: back }, "← Leases")),
    h("h1", { id: "lease-title", class: "text" }, shown(key)), says, now, orders, details,
    h("h2", {}, "Owners"), past.element, more, h("h2", {}, "Events"), list.element);
  function back(event) {
    if (!window.history.state?.inside) return;
    event.preventDefault();
    window.history.back();
  }
  return {
    element, title: key,
    close: () => {
      clearTimeout(timer);
      loop.stop();
      feed.stop();
      unwatch();
    },
  };
}

