// A list of events that begins with the last ones and goes on live.

import { badge, h, keyLink, text, when } from "./dom.js";
import { Feed } from "./feed.js";
import { tone } from "./kinds.js";
import { table } from "./table.js";
import { grouped, host } from "./text.js";

const COLUMNS = [
  { title: "When", kind: "short", cell: ({ time }) => when(time) },
  { title: "Change", kind: "short", cell: ({ kind, times = 1 }) => [badge(kind, tone(kind)), times > 1 && ` × ${grouped(times)}`] },
  { title: "Key", kind: "long", cell: ({ data }) => data.key && keyLink(data.key) },
  { title: "Owner", cell: ({ data }) => data.owner && text(data.owner) },
  { title: "Token", kind: "n", cell: ({ data }) => (data.token ? String(data.token) : "") },
  { title: "Former owner", cell: ({ data }) => data.previous && text(data.previous.owner) },
  { title: "Why", cell: ({ data }) => data.reason && text(data.reason) },
  { title: "Ordered by", cell: ({ data }) => data.actor && text(data.actor) },
  { title: "Node", cell: ({ data }) => data.node && text(host(data.node)) },
];

const RESETS = {
  "too-slow": "This page was too slow: some events are not shown.",
  "lost": "The node lost its connection to the store: some events may be missing.",
  "no-longer-kept": "Some events are missing: the store no longer keeps them.",
  "another-store": "The node has another store now.",
};

/** A table of events, without the columns of these titles. */
export const eventTable = (caption, without = []) => table(caption, COLUMNS.filter(({ title }) => !without.includes(title)));

/**
 * A list of the events with a filter. `begin` events from before are shown, `most` at most. `without` names columns that
 * are left out. `merge`: the changes of a key of one kind are one line, the latest with how many there were, so that a key
 * that changes all the time does not hide the others.
 */
export function eventList(caption, { begin = 40, most = 40, without = [], merge = false } = {}) {
  const list = eventTable(caption, without);
  const how = h("span", { class: "chip", role: "status" }, "connecting");
  const note = h("p", { class: "quiet", hidden: true });
  const pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => hold(!held) }, "Pause");
  const lines = new Map();
  let [feed, held, waiting] = [null, false, []];

  list.clear("loading…");

  function hold(want) {
    held = want;
    pause.setAttribute("aria-pressed", String(held));
    if (!held) {
      add(waiting);
      waiting = [];
    }
    label();
  }

  function add(events) {
    if (!merge) return list.prepend(events, most);
    for (const event of events) {
      const line = event.data.key ? JSON.stringify([event.data.key, event.kind]) : event.time;
      const times = (lines.get(line)?.times ?? 0) + 1;
      lines.delete(line);
      lines.set(line, { ...event, line, times });
    }
    for (const line of [...lines.keys()].slice(0, -most)) lines.delete(line);
    list.fill([...lines.values()].reverse(), ({ line }) => line);
  }

  function label() {
    pause.textContent = held ? `Go on${waiting.length ? ` (${waiting.length} new)` : ""}` : "Pause";
  }

  function show({ events, fresh, reset }) {
    if (fresh) {
      [waiting, note.hidden] = [[], true];
      lines.clear();
      list.clear("No event is kept that fits. New ones appear here.");
    }
    if (reset) {
      note.textContent = RESETS[reset] ?? `Some events may be missing (${reset}).`;
      note.hidden = false;
    }
    if (held) waiting = [...waiting, ...events].slice(-most);
    else if (events.length) add(events);
    label();
  }

  function follow(filter) {
    feed?.stop();
    feed = new Feed(filter, begin, show, (word) => {
      how.textContent = word;
      how.classList.toggle("good", word === "live");
    });
  }

  return { element: [h("div", { class: "tools" }, how, pause), note, list.element], follow, stop: () => feed?.stop() };
}
