// The leases: searched by the node, page by page. The query is in the address.

import { get } from "./api.js";
import { announce, badge, h, keyLink, say, text, until, when } from "./dom.js";
import { Feed } from "./feed.js";
import { STATES, concerns, eventsFilter, leasesPath, statesOf, statesText } from "./filters.js";
import { repeat } from "./repeat.js";
import { link } from "./route.js";
import { table } from "./table.js";
import { count, grouped, host } from "./text.js";
import { tick } from "./ticks.js";

// A page of leases is read again after this time, in milliseconds, because heartbeats leave no event; sooner after an
// event; and never more than a twentieth of the time.
const CALM = 5000;
const SOON = 1000;
// Events are followed with a new filter as soon as the person has not typed for this long.
const TYPING = 400;

/** What keeps a lease, or keeps it closed, and for how long. */
export function timeLeft(lease) {
  if (lease.state === "fencing") {
    const failed = lease.fence_failed ? "the fence failed, an administrator must act" : "not confirmed yet";
    return h("span", { class: lease.fence_failed ? "bad" : "" }, text((lease.fences ?? []).join(", ")), `: ${failed}`);
  }
  if (lease.pinned && lease.state === "held") return "pinned: does not expire";
  if (lease.expires_in_ms !== null) {
    return until(Date.now() + lease.expires_in_ms, { cooling: "opens in ", offered: "reserved for " }[lease.state]);
  }
  if (lease.state === "held" && lease.session) return "as long as its session";
  return lease.state === "held" ? h("span", { class: "quiet", title: "Only its home node knows." }, "known at its node") : "";
}

const COLUMNS = [
  { title: "Key", kind: "long", cell: ({ key }) => keyLink(key) },
  {
    title: "State", kind: "short",
    cell: ({ state, pinned, fence_failed: failed }) => [
      badge(state), pinned && h("span", { class: "chip" }, "pinned"), failed && h("span", { class: "chip bad" }, "fence failed"),
    ],
  },
  { title: "Owner", cell: ({ owner, offered_to: to }) => (owner || to) && text(owner ?? `for ${to}`) },
  { title: "Token", kind: "n", cell: ({ token }) => String(token) },
  { title: "Since", kind: "short", cell: ({ acquired_at: at, state }) => state !== "free" && when(at) },
  { title: "Time left", cell: timeLeft },
  { title: "Waiting", kind: "n", cell: ({ waiters }) => (waiters ? grouped(waiters) : "") },
  { title: "Pool", cell: ({ pool }) => h("a", { class: "text", href: link("leases", { pool }) }, text(pool)) },
  { title: "Node", cell: ({ node, state }) => state !== "free" && node && text(host(node)) },
];

export function open(query, go) {
  const list = table("Leases", COLUMNS);
  const says = h("p", { class: "quiet", role: "status" });
  const [previous, next] = ["Previous page", "Next page"].map((title) => h("a", { class: "button", hidden: true }, title));
  previous.id = "previous";
  next.id = "next";
  const form = filters((wanted) => go("leases", wanted));
  let feed = null;
  let followed = "";
  let typing = 0;
  let lately = false;
  let last = { began: 0, took: 0 };

  const work = async (signal) => {
    lately = false;
    last.began = performance.now();
    const page = await read(query, signal, says);
    last.took = performance.now() - last.began;
    if (!page) return;
    list.fill(page.leases, ({ key }) => key, nothing(query, page));
    list.element.removeAttribute("aria-busy");
    tick(list.element);
    turn(previous, page.previous && { ...query, after: "", before: page.previous });
    turn(next, page.next && { ...query, before: "", after: page.next });
    say(says, `${count(page.leases.length, "lease", "leases")} on this page${page.next ? ", more follow" : ""}`);
  };
  list.clear("loading…");
  const loop = repeat(work, (took) => Math.max(lately ? SOON : CALM, 20 * took));

  function follow() {
    const filter = eventsFilter(query);
    delete filter.types;
    if (JSON.stringify(filter) === followed) return;
    followed = JSON.stringify(filter);
    feed?.stop();
    feed = new Feed(filter, 0, ({ events, fresh }) => {
      if (fresh || lately || !events.some(({ data }) => data.key && concerns(query, data))) return;
      lately = true;
      const rest = Math.max(SOON, 20 * last.took) - (performance.now() - last.began);
      setTimeout(() => lately && loop.now(), Math.max(0, rest));
    });
  }

  function update(wanted) {
    query = wanted;
    form.show(query);
    list.element.setAttribute("aria-busy", "true");
    loop.now();
    clearTimeout(typing);
    typing = setTimeout(follow, TYPING);
  }
  form.show(query);
  follow();
  const page = h("nav", { class: "tools", "aria-label": "Pages of leases" }, previous, next, says);
  const element = h("section", { "aria-labelledby": "leases-title" }, h("h1", { id: "leases-title" }, "Leases"),
    form.element, page, h("div", { id: "leases" }, list.element));
  return {
    element, update, title: "Leases", focus: form.focus,
    close: () => {
      lately = false;
      clearTimeout(typing);
      loop.stop();
      feed?.stop();
    },
  };
}

async function read(query, signal, says) {
  try {
    return await get(leasesPath(query), signal);
  } catch (error) {
    if (!signal.aborted) {
      say(says, `Not up to date: ${error.message}`);
      announce(says.textContent);
    }
    return null;
  }
}

function turn(element, query) {
  element.hidden = !query;
  if (query) element.setAttribute("href", link("leases", query));
}

function nothing(query, { next, previous }) {
  if (next || previous) return "No lease on this page fits. There are other pages.";
  const all = !Object.keys(query).some((name) => query[name]);
  if (!all) return "No lease fits. Free keys are listed only if “free” is on.";
  return "Nobody holds a lease. To take the first one: tenure acquire --owner me --ttl 1m my/first/key";
}

/** The form. `change` gets a new query, without a place in the list, as soon as a field changes. */
function filters(change) {
  const field = (label, name, hint) => h("label", {}, label,
    h("input", { name, type: "search", autocomplete: "off", spellcheck: "false", placeholder: hint }));
  const boxes = STATES.map((state) => h("label", { class: "box" },
    h("input", { type: "checkbox", name: "state", value: state }), badge(state)));
  const element = h("form", { class: "filters", role: "search", "aria-label": "Leases" },
    field("Key begins with", "prefix", "jobs/"), field("Owner", "owner", "worker-1"), field("Pool", "pool", "default"),
    field("Session", "session", "32 hexadecimal digits"), h("fieldset", {}, h("legend", {}, "State"), boxes),
    h("button", { type: "reset" }, "Clear"));
  const inputs = [...element.elements].filter(({ type }) => type === "search");
  const states = [...element.elements].filter(({ type }) => type === "checkbox");

  function tell() {
    const query = Object.fromEntries(inputs.map(({ name, value }) => [name, value]));
    change({ ...query, state: statesText(states.filter(({ checked }) => checked).map(({ value }) => value)) });
  }
  element.addEventListener("input", tell);
  element.addEventListener("submit", (event) => event.preventDefault());
  element.addEventListener("reset", (event) => {
    event.preventDefault();
    change({});
  });
  return {
    element,
    focus: () => inputs[0].focus(),
    show: (query) => {
      // Whoever types is not interrupted.
      for (const input of inputs) {
        if (input !== document.activeElement || !query[input.name]) input.value = query[input.name] ?? "";
      }
      const on = statesOf(query);
      for (const box of states) box.checked = on.includes(box.value);
    },
  };
}

