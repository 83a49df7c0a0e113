// The page: its header, and the view that the address names.

import { get, on } from "./api.js";
import { attentionBlock, headline } from "./attention.js";
import { connect, disconnect, watch } from "./connection.js";
import { $, announce, badge, h, redraw, replace, say, text } from "./dom.js";
import { listen } from "./keys.js";
import { person, recognise, signIn, signOut } from "./person.js";
import { refresh } from "./repeat.js";
import { VIEWS, link, parse } from "./route.js";
import { host, shown } from "./text.js";
import { keepTime } from "./ticks.js";
import { time } from "./time.js";
import * as churn from "./view-churn.js";
import * as events from "./view-events.js";
import * as lease from "./view-lease.js";
import * as leases from "./view-leases.js";
import * as nodes from "./view-nodes.js";
import * as overview from "./view-overview.js";
import * as pools from "./view-pools.js";
import * as sessions from "./view-sessions.js";

const MODULES = { overview, leases, lease, sessions, pools, nodes, events, churn };

// How long to wait before the node is asked once more who the person is, in milliseconds.
const AGAIN_MS = 1000;

const attention = attentionBlock();
let [view, route, info, latest] = [null, null, null, null];

/** Shows what the address names. A view that is shown already gets the new query. */
function show() {
  const next = parse(location.hash);
  if (!person() || (!person().open && !person().name)) return;
  const isSame = view && route.view === next.view && view.update;
  const isChanged = JSON.stringify(route) !== JSON.stringify(next);
  if (view && !isChanged) return;
  route = next;
  if (isSame) {
    view.update(next.query);
  } else {
    view?.close();
    view = MODULES[next.view].open(next.query, go);
    replace($("main"), view.element);
    scrollTo(0, 0);
    // The link that led here may be gone.
    if (document.activeElement === document.body) $("main").focus({ preventScroll: true });
  }
  document.body.dataset.view = next.view;
  for (const place of document.querySelectorAll("nav [data-view]")) {
    const current = place.dataset.view === next.view || (next.view === "lease" && place.dataset.view === "leases");
    if (current) place.setAttribute("aria-current", "page");
    else place.removeAttribute("aria-current");
  }
  attention.element.hidden = next.view !== "overview";
  entitle();
}

/** Shows a view with another query, which replaces the one in the address. */
function go(name, query) {
  window.history.replaceState({ inside: true }, "", link(name, query));
  show();
}

function entitle() {
  const parts = [headline(latest?.status), view?.title, "tenure", host(info?.node)];
  document.title = parts.filter(Boolean).map(shown).join(" · ");
}

/** The header: whether the node answers, and what needs a person. */
function draw(state) {
  latest = state;
  const { status, lostSince, why, refused } = state;
  const isLost = lostSince !== null;
  document.body.classList.toggle("lost", isLost);
  $("lost").hidden = !isLost;
  if (isLost) say($("lost"), `No answer since ${time(lostSince)}: ${why}. What you see is from before. Trying again…`);
  const refuses = refused && refused.status !== 403;
  const [word, tone] = isLost ? ["no answer", "bad"] : refuses ? [refused.code || "refused", "bad"] : ["connected", "good"];
  redraw($("link"), word, () => badge(word, tone));
  $("link").title = refused ? shown(refused.message) : "";
  const words = headline(status);
  $("alarm").hidden = !words;
  redraw($("alarm"), words, () => words && badge(words, status.severity === "critical" ? "bad" : "warn"));
  if (status) attention.show(status);
  else if (refused) attention.refuse(refused.status === 403 ? "You may not see what needs attention: that needs the right “observe”." : refused.message);
  entitle();
}

async function describe() {
  try {
    info = await get("/v1/info");
    replace($("node"), text(host(info.node)), ` · ${shown(info.store)} store · version ${shown(info.version)} · epoch ${info.epoch}`);
    entitle();
  } catch {
    $("node").textContent = "";
  }
}

function greet() {
  const who = person();
  const name = who.open ? h("span", { class: "quiet", title: "No access file is in force." }, "open to everybody") : text(who.name);
  replace($("person"), name, !who.open && who.cookie && h("button", { type: "button", class: "small", onclick: leave }, "Sign out"));
}

async function leave() {
  await signOut();
  stranger();
}

/** Asks for a token, and shows nothing else. */
function stranger() {
  disconnect();
  view?.close();
  view = null;
  route = null;
  replace($("main"));
  attention.element.hidden = true;
  for (const id of ["alarm", "lost"]) $(id).hidden = true;
  $("sign-in").hidden = false;
  replace($("person"));
  document.title = "tenure";
}

async function enter() {
  let who;
  if (document.visibilityState === "hidden") return document.addEventListener("visibilitychange", enter, { once: true });
  try {
    who = await recognise();
  } catch (error) {
    setTimeout(enter, AGAIN_MS);
    return draw({ status: null, lostSince: latest?.lostSince ?? Date.now(), why: error.message, refused: null });
  }
  if (!who.open && !who.name) return stranger();
  $("sign-in").hidden = true;
  greet();
  describe();
  connect();
  show();
}

$("sign-in").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.currentTarget;
  const token = form.elements.token.value.trim();
  form.reset();
  try {
    await signIn(token);
    $("refused").textContent = "";
    await enter();
  } catch (error) {
    $("refused").textContent = error.status === 401 ? "The node does not know this token." : `Not signed in: ${error.message}`;
  }
});

on("stranger", () => enter());
watch(draw);
for (const [name, title] of VIEWS) $("views").append(h("a", { href: link(name), "data-view": name }, title));
$("attention-place").append(attention.element);
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
addEventListener("hashchange", () => {
  window.history.replaceState({ inside: true }, "");
  show();
  announce(document.title);
});
listen({ view: () => view, refresh });
keepTime();
enter();
