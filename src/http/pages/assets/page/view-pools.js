// The pools: what each member holds, what its share is, and what is to move.

import { get } from "./api.js";
import { badge, h, redraw, say, text } from "./dom.js";
import { order } from "./order-dialog.js";
import { ORDERS } from "./orders.js";
import { person } from "./person.js";
import { may } from "./rights.js";
import { repeat } from "./repeat.js";
import { link } from "./route.js";
import { count, grouped, host } from "./text.js";

// A pool shows this many members at most.
const MOST = 100;

// A load this far from the mean stands out: the tolerance of most pools.
const SLACK = 0.1;

/** Loads have any unit: three digits are enough. */
const load = (number) => number.toLocaleString("en", { maximumSignificantDigits: 3 });

/** What is shown of a member: how much it holds and its share, or its load and the mean for its weight. */
function measure(one, mean) {
  return mean === null
    ? { held: one.held, share: one.share, slack: 0, says: `${grouped(one.held)} of ${grouped(one.share)}`, label: `holds ${one.held} of a share of ${one.share}` }
    : { held: one.load ?? 0, share: mean * one.weight, slack: SLACK * mean * one.weight, says: `load ${load(one.load ?? 0)}`, label: `carries ${load(one.load ?? 0)}, where ${load(mean * one.weight)} is the mean` };
}

/** A bar: how much a member holds, and a mark where its share ends. */
function bar({ held, share, slack, label }, widest) {
  const part = (number) => `${Math.min(100, (100 * number) / widest)}%`;
  const [fill, mark] = [h("i", { class: "fill" }), h("i", { class: "mark" })];
  fill.style.width = part(held);
  mark.style.left = part(share);
  return h("span", { class: `bar ${held > share + slack ? "over" : held < share - slack ? "under" : ""}`, role: "img", "aria-label": label }, fill, mark);
}

function member(one, widest, mean) {
  const shown = measure(one, mean);
  const states = [
    one.draining && badge("draining", "warn"), one.cordoned && badge("cordoned", "warn"), one.set_aside && badge("takes none", "warn"), one.unready && badge("not ready", "warn"), one.replaced && badge("replaced by a newer session", "warn"),
    one.handovers > 0 && badge(`${count(one.handovers, "lease", "leases")} to hand over`, "warn"),
    one.held < one.share && !one.set_aside && h("span", { class: "quiet" }, `${grouped(one.share - one.held)} to come`),
  ];
  return h("li", {},
    h("span", { class: "name" }, h("a", { class: "text", href: link("leases", { session: one.session }), title: one.owner }, text(one.owner))),
    bar(shown, widest),
    h("span", { class: "n" }, shown.says),
    h("span", { class: "quiet" }, mean !== null && `${count(one.held, "lease", "leases")} · `, `weight ${grouped(one.weight)}`, one.capacity !== null && ` · at most ${grouped(one.capacity)}`, one.load_limit !== null && ` · load at most ${load(one.load_limit)}`, one.version !== null && ` · version ${one.version}`, ...Object.entries(one.labels).map(([name, value]) => ` · ${name}=${value}`), one.address && ` · serves at ${one.address}`, one.node && ` · ${host(one.node)}`, " ", states));
}

/** Why keys have no member to go to. */
const WHYS = {
  require: "no member has the labels that their policy requires", capacity: "members have as many leases as they accept",
  "load-limit": "members accept no more load", "set-aside": "the members with room ask for none", cordoned: "members are cordoned",
  guard: "members get no more than their former shares", frozen: "the pool is frozen", paused: "they are paused",
  kept: "they are kept for their last owners", "no-member": "nobody takes leases",
};

const OF_POOLS = Object.keys(ORDERS).filter((one) => one.startsWith("pool-"));

/** What keeps the keys of a pool from moving as they otherwise would, each with its author and reason. */
function heldBack(one) {
  const said = ({ by, reason, until }) => `${until ? `until ${new Date(until).toLocaleString()}, ` : ""}by ${by}: ${reason}`;
  const lines = [
    one.frozen && `Frozen, ${said(one.frozen)}`,
    one.guard && `It lost many of its ${grouped(one.guard.members)} members at once. The others get no more than their former shares, until fewer than ${grouped(one.guard.least)} are missing.`,
    one.rebalancing && "It is being rebalanced.",
    one.unplaced?.total > 0 && `${count(one.unplaced.total, "key has", "keys have")} no member to go to: ${Object.entries(one.unplaced.whys).map(([why, number]) => `${WHYS[why] ?? why} (${grouped(number)})`).join(", ")}; first ${one.unplaced.keys[0].key}`,
    ...one.cordoned.slice(0, MOST).map((each) => `${each.owner} is cordoned, ${said(each)}`),
    ...one.paused.slice(0, MOST).map((each) => `${each.key} ${each.to ? `goes to ${each.to} only` : "is paused"}, ${said(each)}`),
    ...one.warming.slice(0, MOST).map((each) => `${each.to ?? "A member that is gone"} prepares for ${each.key}, which ${each.from ?? "a member that is gone"} holds${each.requested ? " and was asked for" : ""}.`),
  ].filter(Boolean);
  return lines.length > 0 && h("ul", { class: "voids" }, lines.map((line) => h("li", { class: "text" }, text(line))));
}

function pool(one, again) {
  async function give(name) {
    await order(name, one);
    again();
  }
  const fit = may(person(), "admin", "") ? OF_POOLS.filter((name) => ORDERS[name].fits(one)) : [];
  const members = [...one.members].sort((a, b) => a.owner.localeCompare(b.owner, "en", { numeric: true }));
  const staying = members.filter((each) => !each.draining);
  const sum = (of) => staying.reduce((all, each) => all + of(each), 0);
  const mean = one.load_peak === null ? null : sum((each) => each.load ?? 0) / Math.max(1, sum((each) => each.weight));
  const widest = Math.max(...members.map((each) => measure(each, mean)).map(({ held, share }) => Math.max(held, share)), mean === null ? 1 : 1e-6);
  const moves = members.reduce((sum, { handovers }) => sum + handovers, 0);
  const keys = one.keys === null
    ? "Its keys are not counted: no session joined it."
    : `${count(one.keys, "key", "keys")}, ${grouped(one.free)} without an owner${one.kept > 0 ? ` (${grouped(one.kept)} kept for a member that went)` : ""}, ${count(members.length, "member", "members")}${mean === null ? "" : `, the most loaded at ${Math.round(100 * one.load_peak)} % of the mean`}`;
  return h("section", { class: "pool", "aria-label": `Pool ${one.pool}` },
    h("h2", {}, text(one.pool), " ", one.balance ? badge(one.by_load ? "balanced by load" : "balanced", "plain") : h("span", { class: "quiet" }, "not balanced"), " ",
      one.frozen && badge("frozen", "warn"), " ", one.guard && badge("mass failure", "warn"), " ", one.rebalancing && badge("rebalancing", "warn"), " ",
      moves > 0 && badge(`${count(moves, "move", "moves")} pending`, "warn")),
    heldBack(one),
    h("p", { class: "quiet" }, keys, " · ", h("a", { href: link("leases", { pool: one.pool }) }, "its leases")),
    h("div", { class: "tools" }, fit.map((name) => h("button", { type: "button", "data-order": name, onclick: () => give(name) }, `${ORDERS[name].label}…`))),
    h("ul", { class: "members" }, members.slice(0, MOST).map((each) => member(each, widest, mean))),
    members.length > MOST && h("p", { class: "quiet" }, `and ${grouped(members.length - MOST)} more: tenure pools ${one.pool}`));
}

export function open(query) {
  const list = h("div", { id: "pools" }, h("p", { class: "quiet" }, "loading…"));
  const says = h("p", { class: "quiet", role: "status" });

  async function work(signal) {
    try {
      const { pools } = await get("/v1/pools", signal);
      const wanted = query.pool ? pools.filter((one) => one.pool === query.pool) : pools;
      say(says, query.pool ? "" : "A bar is what a member holds, or its load; the mark on it is its share, or the mean load.");
      // Those with members first.
      const sorted = [...wanted].sort((a, b) => (b.members.length > 0) - (a.members.length > 0));
      redraw(list, JSON.stringify(sorted), () => (sorted.length ? sorted.map((each) => pool(each, () => loop.now())) : h("p", { class: "quiet" }, "There is no such pool.")));
    } catch (error) {
      if (!signal.aborted) say(says, `Not up to date: ${error.message}`);
    }
  }
  const loop = repeat(work, (took) => Math.max(3000, 20 * took));
  const element = h("section", { "aria-labelledby": "pools-title" }, h("h1", { id: "pools-title" }, "Pools"),
    query.pool && h("p", {}, h("a", { href: link("pools") }, "All pools")), says, list);
  return { element, title: "Pools", close: () => loop.stop() };
}
