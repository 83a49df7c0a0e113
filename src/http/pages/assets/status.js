"use strict";
// Follows the coordinator's own API: a page of leases every second, and the event stream.
const $ = (id) => document.getElementById(id);
const SHOWN = 100;
const KEPT = 40;
const SESSIONS = 10;
const MEMBERS = 25;
let recent = [];

// Characters without width, line breaks and changes of text direction. They are shown as escapes, so no name can imitate another.
const MISLEADS = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const shown = (text) => String(text ?? "").replace(MISLEADS, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function cell(text, kind) {
  const td = document.createElement("td");
  td.textContent = shown(text);
  td.title = td.textContent;
  if (kind) td.className = kind;
  return td;
}

function row(...cells) {
  const tr = document.createElement("tr");
  tr.append(...cells);
  return tr;
}

function span(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${Math.round(ms / 60000)} min`;
  return `${Math.round(ms / 3600000)} h`;
}

function left(lease) {
  const td = cell("");
  // What keeps a key closed, and for how long.
  if (lease.state === "fencing") {
    const waits = lease.fence_failed ? "failed, needs an administrator" : "unconfirmed";
    return cell(`${(lease.fences ?? []).join(", ")}: ${waits}`, lease.fence_failed ? "bad" : "fencing");
  }
  if (lease.state === "cooling") return cell(`opens in ${span(lease.expires_in_ms)}`, "cooling");
  if (lease.state === "held" && lease.session && lease.expires_in_ms === null) {
    return cell(`session ${lease.session.slice(0, 8)}`);
  }
  if (lease.pinned) return cell("pinned", "offered");
  if (lease.expires_in_ms === null) return td;
  if (lease.ttl_ms) {
    const meter = document.createElement("meter");
    Object.assign(meter, { min: 0, max: lease.ttl_ms, low: lease.ttl_ms * 0.2, value: lease.expires_in_ms });
    td.append(meter);
  }
  td.append(span(lease.expires_in_ms));
  return td;
}

// Fetches from this coordinator. Shows the form for a token if it asks who calls.
async function ask(path, quiet = false) {
  const answer = await fetch(path);
  if (answer.status === 401) {
    $("sign-in").hidden = false;
    $("main").hidden = true;
    throw new Error("sign in");
  }
  $("sign-in").hidden = true;
  $("main").hidden = false;
  if (answer.status === 403 && quiet) return null;
  return answer;
}

async function leases() {
  const form = new FormData($("filter"));
  const query = new URLSearchParams([["limit", SHOWN], ...[...form].filter(([, value]) => value)]);
  const answer = await ask(`/v1/leases?${query}`);
  const page = await answer.json();
  if (!answer.ok) throw new Error(page.detail);
  $("leases").replaceChildren(...page.leases.map((lease) => row(
    cell(lease.key), cell(lease.state, lease.state), cell(lease.owner ?? lease.offered_to),
    cell(lease.token, "n"), left(lease),
    cell(lease.acquired_at && new Date(lease.acquired_at).toLocaleTimeString()), cell(lease.waiters || "", "n"),
    cell(lease.state === "free" ? "" : host(lease.node), "home"),
  )));
  if (page.leases.length === 0) $("leases").replaceChildren(row(cell("no lease matches")));
  $("more").textContent = page.next === null ? "" : `The first ${page.leases.length}; use a prefix to narrow the list.`;
}

// Shows the first few sessions, ordered by their digests.
async function sessions() {
  const page = await (await ask(`/v1/sessions?limit=${SESSIONS}`)).json();
  $("sessions-section").hidden = page.sessions.length === 0;
  $("sessions-list").replaceChildren(...page.sessions.map((session) => row(
    cell(session.digest.slice(0, 8)), cell(session.owner), cell(session.leases?.count.toLocaleString(), "n"),
    left(session), cell(session.created_at && new Date(session.created_at).toLocaleTimeString()),
    cell(session.checks.map((check) => check.type).join(", ")), cell(host(session.node), "home"),
  )));
  $("more-sessions").textContent = page.next === null ? "" : `The first ${SESSIONS}, ordered by digest; GET /v1/sessions lists all.`;
}

// Shows the pools with members, and the members of each, ordered by the digests of their sessions.
async function pools() {
  const joined = (await (await ask("/v1/pools")).json()).pools.filter((pool) => pool.members.length);
  $("pools-section").hidden = joined.length === 0;
  const all = joined.flatMap((pool) => [
    row(cell(pool.pool), cell(`${pool.members.length} members`), cell(""), cell(((pool.keys ?? 0) - (pool.free ?? 0)).toLocaleString(), "n"),
      cell((pool.keys ?? 0).toLocaleString(), "n"), cell(""), cell(pool.balance ? "balanced" : "not balanced"), cell("", "home")),
    ...pool.members.map((member) => row(
      cell(""), cell(member.owner), cell(member.weight, "n"), cell(member.held, "n"), cell(member.share, "n"),
      cell(member.handovers || "", "n"), member.draining ? cell("draining", "cooling") : cell(member.set_aside ? "takes none" : ""), cell(host(member.node), "home"),
    )),
  ]);
  $("pools").replaceChildren(...all.slice(0, MEMBERS));
  $("more-members").textContent = all.length > MEMBERS ? `The first ${MEMBERS} rows; GET /v1/pools lists all.` : "";
}

const host = (url) => url && url.replace(/^https?:\/\//, "");

// Shows the nodes on the store. A store of one process has only one.
async function nodes() {
  const answer = await ask("/v1/nodes", true);
  if (!answer) return;
  const { nodes } = await answer.json();
  document.body.classList.toggle("alone", nodes.length < 2);
  $("nodes-section").hidden = nodes[0].runs_out_in_ms === null && nodes.length < 2;
  const colour = { alive: "held", dead: "bad" };
  $("nodes").replaceChildren(...nodes.map((node) => row(
    cell(node.this ? `${host(node.url)} (this one)` : host(node.url) || "unknown"),
    cell(node.state, colour[node.state]), cell(node.state === "alive" ? node.leases.toLocaleString() : "", "n"),
    cell(span(node.runs_out_in_ms)), cell(node.version), cell(node.incarnation.slice(0, 8)),
  )));
}

// Shows the figures: sums of metrics over all labels.
async function figures() {
  const answer = await ask("/metrics", true);
  if (!answer) return;
  const text = await answer.text();
  const sum = (name) => text.split("\n")
    .filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
    .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
  const published = sum("tenure_events_published_total");
  const now = performance.now();
  recent = [...recent.filter(([at]) => now - at < 10000), [now, published]];
  const [since, before] = recent[0];
  $("held").textContent = sum("tenure_leases_held").toLocaleString();
  $("waiters").textContent = sum("tenure_lease_waiters").toLocaleString();
  $("sessions").textContent = sum("tenure_sessions").toLocaleString();
  $("keys").textContent = sum("tenure_store_keys").toLocaleString();
  $("changes").textContent = now > since ? ((published - before) * 1000 / (now - since)).toFixed(1) : "–";
  const ready = await (await fetch("/readyz")).json();
  $("state").textContent = ready.ready ? "ready" : "not ready";
  $("state").title = ready.reasons.join("; ");
  $("state").className = ready.ready ? "held" : "bad";
}

async function look() {
  try {
    await Promise.all([leases(), figures(), nodes(), sessions(), pools()]);
  } catch (error) {
    if ($("sign-in").hidden) {
      $("state").textContent = "unreachable";
      $("state").title = String(error);
      $("state").className = "bad";
    }
  }
  setTimeout(look, 1000);
}

function follow() {
  const stream = new EventSource("/v1/events");
  // After a refusal the browser does not try again by itself.
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  });
  const show = (message) => {
    const event = JSON.parse(message.data);
    const { data } = event;
    $("silence").hidden = true;
    $("events").prepend(row(
      cell(new Date(event.time).toLocaleTimeString()), cell(message.type, message.type), cell(data.key),
      cell(data.owner), cell(data.token, "n"), cell(data.previous && data.previous.owner), cell(data.reason),
      cell(host(data.node), "home"),
    ));
    while ($("events").children.length > KEPT) $("events").lastChild.remove();
  };
  for (const kind of ["granted", "released", "expired", "revoked", "reclaimed", "transferred", "pinned", "unpinned",
    "session-ended", "fencing", "fenced", "fence-failed", "fence-skipped", "cooled", "handover-requested", "forgotten"]) {
    stream.addEventListener(kind, show);
  }
  stream.addEventListener("frozen", (message) => {
    const { frozen, reason } = JSON.parse(message.data);
    $("silence").hidden = true;
    $("events").prepend(row(cell(new Date().toLocaleTimeString()), cell(frozen ? "frozen" : "thawed", "bad"),
      cell(""), cell(""), cell(""), cell(""), cell(reason)));
  });
}

async function describe() {
  const answer = await fetch("/v1/info");
  if (!answer.ok) return setTimeout(describe, 2000);
  const info = await answer.json();
  const open = info.open ? " · open: everybody who reaches this address may do everything" : "";
  $("node").textContent = `${info.node} · ${info.store} store · version ${info.version} · epoch ${info.epoch}${open}`;
}

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ token: new FormData($("sign-in")).get("token").trim() });
  const answer = await fetch("/sign-in", { method: "POST", headers: { "content-type": "application/json" }, body });
  $("sign-in").reset();
  $("refused").textContent = answer.ok ? "" : "The coordinator does not know this token.";
});
describe();
$("filter").addEventListener("submit", (event) => event.preventDefault());
look();
follow();
