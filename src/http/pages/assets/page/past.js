// The latest events from before the page was opened.

import { get } from "./api.js";
import { earlier, isBeginning } from "./cursor.js";
import { path } from "./filters.js";

// How far back to look, in revisions of the store: further if there are too few events.
const STEPS = [256, 1024, 4096];

/** The last `most` events with this filter, oldest first, and the cursor after them. */
export async function lastEvents(filter, most, signal) {
  const { next: end } = await read(filter, "", signal);
  let found = { events: [], next: end };
  if (!most) return found;
  for (const step of STEPS) {
    const after = earlier(end, step);
    if (!after) break;
    found = await readAll(filter, after, most, signal);
    if (found.events.length >= most || found.reset || isBeginning(after)) break;
  }
  return found;
}

async function readAll(filter, after, most, signal) {
  let [events, next, reset] = [[], after, false];
  for (;;) {
    const page = await read(filter, next, signal);
    events = [...events, ...page.events].slice(-most);
    reset ||= page.reset;
    const isLast = !page.events.length && (!page.reset || page.next === next);
    next = page.next;
    if (isLast) return { events, next, reset };
  }
}

const read = (filter, after, signal) => get(path("/v1/events", { ...filter, format: "json", after }), signal);
