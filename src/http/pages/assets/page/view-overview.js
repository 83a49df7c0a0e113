// The overview: counts, plots, and the latest changes. What needs a person stands above it, on every view.

import { get } from "./api.js";
import { watch } from "./connection.js";
import { badge, h, redraw, say, text, thisNode } from "./dom.js";
import { eventList } from "./event-list.js";
import { CAUSES, tone } from "./kinds.js";
import { plot } from "./plots.js";
import { repeat } from "./repeat.js";
import { link } from "./route.js";
import { changes, spans } from "./series.js";
import { grouped, host } from "./text.js";
import { now, span } from "./time.js";

const LINES = [
  { name: "median", colour: "--plot-1", dash: [] },
  { name: "p99", colour: "--plot-2", dash: [6, 3] },
  { name: "longest", colour: "--plot-4", dash: [2, 3] },
];
const COUNTED_LATELY_MS = 10000;
const seconds = (value) => span(value * 1000);

const PLOTS = [
  {
    title: "Changes by cause", unit: "per minute", hint: "Of the whole store, as far as this node heard.", lines: CAUSES,
    write: (value) => grouped(value), of: (series) => changes(series, now()),
  },
  {
    title: "Time without an owner", unit: "per change of owner", hint: "How long keys were free before somebody took them.",
    lines: LINES, write: seconds, ofNode: true, of: (series) => spans(series, "vacancy"),
  },
  {
    title: "Time held", unit: "per tenure", hint: "How long tenures had lasted when they ended.", lines: LINES, write: seconds,
    ofNode: true, of: (series) => spans(series, "hold"),
  },
  {
    title: "Lateness of expiry", unit: "per tenure", hint: "How long after their deadlines tenures ended.", lines: LINES,
    write: seconds, ofNode: true, of: (series) => spans(series, "lateness"),
  },
];

export function open(query, go) {
  const figures = h("ul", { class: "figures", id: "figures" });
  const counted = h("p", { class: "quiet" });
  const steps = [["5s", "Last 5 minutes"], ["1m", "Last hour"]].map(([step, title]) => h("button", {
    type: "button", "aria-pressed": "false", "data-step": step, onclick: () => go("overview", { step: step === "5s" ? "" : step }),
  }, title));
  const says = h("span", { class: "quiet", role: "status" });
  const plots = PLOTS.map((one) => ({ ...plot(one), of: one.of }));
  const list = eventList("Latest changes of owners", { merge: true });
  let step = "5s";

  const unwatch = watch(({ status }) => {
    if (!status) return;
    const { store: { keys }, this_node: node, last_minute: lately } = status;
    const stamp = JSON.stringify([{ ...keys, age_ms: 0, took_ms: 0 }, { ...node, last_minute: 0 }, lately]);
    redraw(figures, stamp, () => counts(status));
    // A store that keeps count is never behind by so much.
    const isOld = keys?.age_ms >= COUNTED_LATELY_MS;
    counted.textContent = keys ? isOld ? `The numbers of keys are ${span(keys.age_ms)} old.` : "" : "Keys are being counted.";
  });

  const loop = repeat(async (signal) => {
    try {
      const series = await get(`/v1/status/series?step=${step}`, signal);
      say(says, "");
      for (const { show, of } of plots) show(of(series));
    } catch (error) {
      if (!signal.aborted) say(says, `Not up to date: ${error.message}`);
    }
  }, () => (step === "5s" ? 5000 : 15000));

  function update(wanted) {
    step = wanted.step === "1m" ? "1m" : "5s";
    for (const button of steps) button.setAttribute("aria-pressed", String(button.dataset.step === step));
    loop.now();
  }
  update(query);
  list.follow({});

  const element = h("div", {},
    h("h1", { class: "unseen" }, "Overview"),
    h("section", { "aria-labelledby": "counts-title" }, h("h2", { id: "counts-title" }, "Keys"), figures, counted),
    h("section", { "aria-labelledby": "plots-title" }, h("h2", { id: "plots-title" }, "What happened lately"),
      h("div", { class: "tools" }, steps, says), h("div", { class: "plots" }, plots.map((one) => one.element))),
    h("section", { "aria-labelledby": "latest-title" }, h("h2", { id: "latest-title" }, "Latest changes"),
      h("div", { id: "latest" }, list.element)));
  return {
    element, update, title: "",
    close: () => {
      unwatch();
      loop.stop();
      list.stop();
      plots.forEach((one) => one.close());
    },
  };
}

/** The figures, each with a link to what it counts. */
function counts({ store: { keys }, this_node: node, last_minute: lately }) {
  const states = ["held", "fencing", "cooling", "offered", "free"];
  const of = (state) => figure(badge(state), keys ? grouped(keys[state]) : "…", link("leases", { state }));
  const failed = keys?.fences_failed ?? 0;
  const changed = Object.entries(lately).sort(([, a], [, b]) => b - a);
  const health = node.ready ? badge("ready", "good") : [badge("not ready", "bad"), " ", text(node.reasons.join("; "))];
  return [
    ...states.map(of),
    failed > 0 && figure(badge("with a failed fence", "bad"), grouped(failed), link("leases", { state: "fencing" })),
    figure(["callers waiting ", thisNode()], grouped(node.waiting)),
    h("li", { class: "wide" }, h("span", {}, "changes in the last minute"),
      h("p", {}, changed.length ? changed.map(([kind, number]) => [badge(kind, tone(kind)), ` ${grouped(number)}  `]) : "none")),
    h("li", { class: "wide" }, h("span", {}, text(host(node.url)), " ", thisNode()),
      h("p", {}, health, ` · ${grouped(node.leases)} leases live here · ${grouped(node.writes_waiting)} writes wait`)),
  ].filter(Boolean);
}

const figure = (name, number, href) => h("li", {},
  href ? h("a", { href }, h("b", {}, number), h("span", {}, name)) : [h("b", {}, number), h("span", {}, name)]);
