// Whether the node answers, and what it says of itself: one call of `/v1/status` every two seconds.

import { Refused, get, on } from "./api.js";
import { refresh, repeat } from "./repeat.js";

const USUAL = 2000;
const SLOWEST = 5000;

const watchers = new Set();
const state = { status: null, lostSince: null, why: "", refused: null, failures: 0 };
let mayObserve = true;
let loop = null;

/** Calls `act(state)` now and at each change: `status`, `lostSince`, `why`, `refused`. Returns how to stop that. */
export function watch(act) {
  watchers.add(act);
  if (state.status || state.lostSince || state.refused) act(state);
  return () => watchers.delete(act);
}

/** Begins to ask, and asks at once if it has begun. */
export function connect() {
  mayObserve = true;
  if (loop) loop.now();
  else loop = repeat(look, () => (state.failures ? Math.min(SLOWEST, 500 * 2 ** state.failures) : USUAL));
}

/** Asks no more, and forgets what was said. */
export function disconnect() {
  loop?.stop();
  loop = null;
  Object.assign(state, { status: null, lostSince: null, why: "", refused: null, failures: 0 });
}

async function look(signal) {
  try {
    // Whoever may not observe still wants to know whether the node answers.
    const answer = await get(mayObserve ? "/v1/status" : "/livez", signal, true);
    if (mayObserve) Object.assign(state, { status: answer, refused: null });
    found();
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Refused) {
      if (error.status === 403 && mayObserve) mayObserve = false;
      state.refused = error;
      found();
    } else {
      missed(error);
    }
  }
}

function found() {
  const wasLost = state.lostSince !== null;
  Object.assign(state, { lostSince: null, why: "", failures: 0 });
  watchers.forEach((act) => act(state));
  // What was shown meanwhile is old.
  if (wasLost) refresh();
}

function missed(error) {
  state.lostSince ??= Date.now();
  state.failures = Math.min(10, state.failures + 1);
  state.why = error.message;
  watchers.forEach((act) => act(state));
}

// A call of a view got no answer: a look says whether the node is gone.
on("lost", () => state.lostSince === null && loop?.now());
