// What needs a person, on top of everything.

import { get } from "./api.js";
import { copyButton } from "./copy.js";
import { announce, badge, h, keyLink, text, thisNode, when } from "./dom.js";
import { ORDERS } from "./orders.js";
import { order } from "./order-dialog.js";
import { person } from "./person.js";
import { may } from "./rights.js";
import { link } from "./route.js";
import { count, host } from "./text.js";

// How many entries are shown before the person asks for all.
const FEW = 12;

/** The most urgent words of the title: `3 failed fences`. */
export function headline(status) {
  if (!status || status.attention.length === 0) return "";
  const fences = status.attention.filter((one) => one.kind === "fence-failed");
  const failed = fences.reduce((sum, one) => sum + (one.key ? 1 : one.count ?? 1), 0);
  const all = status.attention.length + status.more;
  return failed ? count(failed, "failed fence", "failed fences") : count(all, "thing needs attention", "things need attention");
}

const WHERE = {
  "pool-frozen": () => ["Pools", link("pools")],
  "pool-guarded": () => ["Pools", link("pools")],
  "pool-unplaced": () => ["Pools", link("pools")],
  "pool-uneven": () => ["Pools", link("pools")],
  "node-dead": () => ["Nodes", link("nodes")],
  "rules-differ": () => ["Nodes", link("nodes")],
  "address-shared": () => ["Nodes", link("nodes")],
  "check-failing": ({ owner }) => ["Sessions", link("sessions", { owner })],
  "expiries-many": () => ["Owners with the most expiries", link("churn", { by: "owners", cause: "expired" })],
  "fence-failed": ({ key, pool, severity }) => (key ? null
    : ["Leases with fences", link("leases", { pool: pool ?? "", state: severity === "critical" ? "fencing" : "" })]),
};

/** The block. `show(state)` draws what the node said. */
export function attentionBlock() {
  const title = h("h2", { id: "attention-title" }, "Needs attention: not known yet");
  const list = h("ul", { class: "attention" });
  const more = h("button", { type: "button", hidden: true, onclick: () => open() });
  const element = h("section", { id: "attention", "aria-labelledby": "attention-title" }, title, list, more);
  let [all, shown, last, told] = [false, new Map(), null, null];

  function open() {
    all = true;
    show(last);
  }

  function show(status) {
    last = status;
    const entries = status.attention;
    const listed = all ? entries : entries.slice(0, FEW);
    title.textContent = entries.length ? `Needs attention (${entries.length + status.more})` : "Nothing needs attention";
    element.className = status.severity;
    const next = new Map(listed.map((one) => {
      const { for_ms: _, ...same } = one;
      const stamp = JSON.stringify(same);
      return [stamp, shown.get(stamp) ?? entry(one)];
    }));
    for (const [stamp, item] of shown) if (!next.has(stamp)) item.remove();
    let place = list.firstElementChild;
    for (const item of next.values()) {
      if (item === place) place = place.nextElementSibling;
      else list.insertBefore(item, place);
    }
    shown = next;
    const left = entries.length - listed.length;
    more.hidden = left === 0;
    more.textContent = `Show ${left} more`;
    const words = headline(status) || "Nothing needs attention";
    if (told !== null && told !== words) announce(words);
    told = words;
  }
  /** Says why nothing is known. */
  function refuse(why) {
    title.textContent = why;
  }
  return { element, show, refuse };
}

function entry(one) {
  // What leads to the command, and the command.
  const [, before, command] = /^(.*?)(tenure (?!access)[a-z-]+ .+)?$/s.exec(one.help ?? "");
  const code = command && h("code", {}, command);
  const [, alert] = /^tenure help runbook (\w+)$/.exec(command ?? "") ?? [];
  const where = alert ? ["Runbook", `/docs/runbook/${alert}`] : WHERE[one.kind]?.(one);
  const fences = one.kind === "fence-failed" && one.key
    ? ["fence-retry", "fence-skip"].filter((kind) => may(person(), ORDERS[kind].verb(), one.key)) : [];
  return h("li", { class: one.severity },
    h("p", {}, badge(one.severity, one.severity === "critical" ? "bad" : "warn"), " ", text(one.says), " ",
      one.scope === "node" && thisNode()),
    h("p", { class: "quiet" },
      one.since && [when(one.since), " · "],
      one.key && ["key ", keyLink(one.key), " · "], one.plugin && ["fence ", text(one.plugin), " · "],
      one.owner && [one.kind === "fence-failed" ? "former owner " : "owner ", text(one.owner), " · "],
      one.node && ["node ", text(host(one.node)), " · "],
      one.waiters ? `${count(one.waiters, "caller waits", "callers wait")} · ` : "", one.kind),
    h("p", { class: "tools" }, before && h("span", { class: "quiet" }, before), code, code && copyButton(command, code), where && h("a", { class: "button", href: where[1] }, where[0]),
      fences.map((kind) => h("button", { type: "button", onclick: () => give(kind, one.key) }, `${ORDERS[kind].label}…`))));
}

async function give(kind, key) {
  const again = () => get(`/v1/leases/${encodeURIComponent(key)}`);
  try {
    const lease = await again();
    if (ORDERS[kind].fits(lease)) await order(kind, lease, { again });
    else announce("No fence of the key has failed any more.");
  } catch (error) {
    announce(`The lease cannot be read: ${error.message}`);
  }
}
