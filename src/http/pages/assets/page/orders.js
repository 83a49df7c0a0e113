// The orders of a person: what each voids, what it asks for, and what it sends.

import { shown, count } from "./text.js";
import { span } from "./time.js";

const REASON = { name: "reason", label: "Reason", hint: "The events and the audit log quote it.", required: true, most: 256 };
const PIN = {
  name: "by", label: "Name of the pin", required: true, most: 64,
  hint: "It says why, such as a ticket. A key may have several pins; each is removed by its name.",
};
const LEASE_ID = {
  name: "lease_id", label: "Lease id", required: true, most: 32, secret: true,
  hint: "The 32 digits that the holder got with its grant. It is not kept.",
};
const TO = { name: "to", label: "New owner", most: 256, hint: "Empty: the first caller in the queue." };
const IMMEDIATELY = { name: "immediately", label: "At once, before the last promise to the holder has run out", check: true };

const name = (text) => `“${shown(text)}”`;
const next = ({ waiters }) => (waiters
  ? `The first of ${count(waiters, "waiting caller", "waiting callers")} gets it next.`
  : "Whoever asks gets it next.");
const delays = "Its lock-delay and its fences, if its policy has them, come before.";

function revokeVoids(lease, { immediately }) {
  const holder = `${name(lease.owner)} holds ${name(lease.key)} under token ${lease.token}.`;
  if (immediately) {
    return [holder, `Token ${lease.token} is void at once, before the holder can know: it may still use the resource `
      + "while the next owner does. Only a resource that checks tokens refuses it.", `${next(lease)} ${delays}`];
  }
  const promised = lease.ttl_ms ? ` (${span(lease.ttl_ms)} at most after its last heartbeat, and a margin)` : "";
  return [holder, `Token ${lease.token} is void as soon as the last promise to the holder has run out${promised}. Its `
    + "next heartbeat tells it to stop.", `${next(lease)} ${delays}`];
}

/** Every order: its verb, its path, what it is called, and how it is described. */
export const ORDERS = {
  revoke: {
    label: "Revoke", path: "/v1/admin/revoke", fields: [REASON, IMMEDIATELY],
    verb: ({ immediately } = {}) => (immediately ? "break" : "admin"),
    fits: ({ state }) => state === "held",
    voids: revokeVoids,
    sure: (lease, { immediately }) => (immediately ? `${shown(lease.owner)} is stopped, or the resource checks tokens` : null),
    body: ({ key }, { reason, immediately }) => ({ key, reason, ...(immediately && { immediately }) }),
    told: ({ ends_in_ms: ms }) => (ms ? `The order is durable. The tenure ends in ${span(ms)}.` : "The tenure has ended."),
  },
  transfer: {
    label: "Transfer", path: "/v1/transfer", fields: [TO, LEASE_ID],
    verb: () => "hold",
    fits: ({ state, session }) => state === "held" && !session,
    voids: (lease, { to }) => [
      `${name(lease.owner)} gives ${name(lease.key)} up. Token ${lease.token} is void at once, so stop its work first.`,
      to ? `The key is then reserved for ${name(to)}, as long as the ttl of the tenure was. If ${name(to)} does not take it, anyone may.`
        : next(lease),
    ],
    sure: (lease) => `${shown(lease.owner)} has stopped its work`,
    body: ({ key }, { lease_id, to }) => ({ key, lease_id, ...(to && { to }) }),
    told: () => "The lease is given up.",
  },
  pin: {
    label: "Pin", path: "/v1/admin/pin", fields: [PIN],
    verb: () => "admin",
    fits: () => true,
    voids: (lease) => [
      `Tenures of ${name(lease.key)} do not expire while it is pinned. If its owner dies, nobody takes over.`,
      "Revokes and drains of the key are refused, until every pin is removed.",
    ],
    body: ({ key }, { by }) => ({ key, by }),
    told: () => "The key is pinned.",
  },
  unpin: {
    label: "Unpin", path: "/v1/admin/unpin", fields: [{ ...PIN, hint: "As the pin was named. The events have it." }],
    verb: () => "admin",
    fits: ({ pinned }) => pinned,
    voids: (lease) => [
      `${name(lease.key)} may expire again when no pin is left`
        + `${lease.owner ? `: ${name(lease.owner)} loses it, unless it sends heartbeats` : ""}.`,
    ],
    body: ({ key }, { by }) => ({ key, by }),
    told: ({ lease }) => (lease?.pinned ? "This pin is removed. Another one is left." : "The key is not pinned."),
  },
  "fence-skip": {
    label: "Skip the fence", path: "/v1/admin/fence-skip", fields: [REASON],
    verb: () => "break",
    fits: ({ fences }) => (fences ?? []).length > 0,
    voids: (lease) => [
      `Nobody confirmed that the former owner of ${name(lease.key)} is shut out `
        + `(${count(lease.fences.length, "fence", "fences")}: ${lease.fences.map(shown).join(", ")}).`,
      "This voids that protection: the key opens, and its next owner may work beside the former one.",
      next(lease),
    ],
    sure: () => "The former owner is shut out: it cannot reach the resource",
    body: ({ key }, { reason }) => ({ key, reason }),
    told: () => "The fences are skipped.",
  },
  "fence-retry": {
    label: "Run the fence again", path: "/v1/admin/fence-retry", fields: [{ ...REASON, hint: "The audit log quotes it." }],
    verb: () => "admin",
    fits: ({ fence_failed: failed }) => failed,
    voids: (lease) => [
      `The fence against the former owner of ${name(lease.key)} failed (${lease.fences.map(shown).join(", ")}).`,
      "It runs once more. If it is confirmed, the key opens.",
      next(lease),
    ],
    body: ({ key }, { reason }) => ({ key, reason }),
    told: ({ retried }) => (retried ? "The fence runs." : "No fence of the key has failed."),
  },
  forget: {
    label: "Forget", path: "/v1/admin/forget", fields: [REASON],
    verb: () => "admin",
    fits: ({ state }) => state === "free",
    voids: ({ key }) => [
      `Every free key that begins with ${name(key)} is forgotten, this one and longer ones: values and histories are lost after five minutes.`,
      "Keys that are held, closed, reserved, pinned or waited for stay. Tokens never go back.",
    ],
    sure: ({ key }) => `Every free key that begins with ${shown(key)} is meant`,
    body: ({ key }, { reason }) => ({ prefix: key, reason }),
    told: ({ forgotten, left, next: more }) => `${count(forgotten, "key is", "keys are")} forgotten, and `
      + `${count(left, "key stays", "keys stay")}.${more ? " There are more: give the order again." : ""}`,
  },
  drain: {
    label: "Drain", path: "/v1/admin/drain", fields: [],
    verb: () => "admin", key: () => "",
    fits: () => true,
    voids: ({ owner }) => [
      `Every lease of ${name(owner)} ends, at every node, when the last promise to it has run out. Its sessions in `
        + "pools with balance are asked to hand over first. Pinned leases stay.",
      `${name(owner)} may acquire again at once: stop it first. The events say “drain”, and who ordered it.`,
    ],
    sure: ({ owner }) => `${shown(owner)} is to lose all that it holds`,
    body: ({ owner }) => ({ owner }),
    told: ({ revoked, pinned, draining }) => `${count(revoked, "lease ends", "leases end")}, `
      + `${count(draining, "session hands over", "sessions hand over")}, ${count(pinned, "pinned lease stays", "pinned leases stay")}.`,
  },
};

const KEY = { name: "key", label: "Key", required: true, most: 512 };
const OWNER = { name: "owner", label: "Owner of the member", required: true, most: 256 };

/** The orders for a pool: what each is called, whether it fits, what it does, and what it names. */
const OF_POOLS = {
  freeze: ["Freeze", ({ frozen }) => !frozen, "No key changes its member. Keys that come free stay without an owner, unless their last owner comes back."],
  thaw: ["Thaw", ({ frozen }) => frozen, "Free keys are granted again, and the pool is balanced as its policy says."],
  cordon: ["Cordon a member", ({ members }) => members.length > 0, "The members of this owner keep what they hold, and get no further keys.", [OWNER]],
  uncordon: ["End a cordon", ({ cordoned }) => cordoned.length > 0, "The members of this owner get keys again.", [OWNER]],
  pause: ["Pause a key", ({ members }) => members.length > 0, "The member that holds the key is asked to hand it over, and no member gets it.", [KEY]],
  move: ["Move a key", ({ members }) => members.length > 1, "The member that holds the key is asked to hand it over, and only a member of this owner gets it, beyond its share.", [KEY, OWNER]],
  resume: ["Resume a key", ({ paused }) => paused.length > 0, "Members get the key by their shares again.", [KEY]],
  rebalance: ["Rebalance", ({ balance, frozen, guard, members }) => balance && !frozen && !guard && members.length > 1, "Members are asked at once for all leases beyond their shares, however young these are."],
  "end-guard": ["End the guard", ({ guard }) => guard, "The members that are left take all keys, however many that are for each."],
};
for (const [action, [label, fits, does, fields = []]] of Object.entries(OF_POOLS)) {
  ORDERS[`pool-${action}`] = {
    label, path: "/v1/admin/pool", fields: [...fields, REASON],
    verb: () => "admin", key: () => "",
    fits,
    voids: ({ pool }) => [`Pool ${name(pool)}: ${does}`, "The order holds at every coordinator, until the one that ends it."],
    body: ({ pool }, given) => ({ pool, action, ...given }),
    told: () => "The order is durable.",
  };
}

/** The key that an order needs a right to. */
export const keyOf = (order, subject) => (order.key ? order.key(subject) : subject.key);

/** Whether the lease is another one than the person was shown. */
export const differs = (before, after) => ["state", "owner", "token"].some((field) => before[field] !== after[field]);
