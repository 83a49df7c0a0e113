// Calls of the node. Everything here is sent to the page's own origin.

import { heard } from "./time.js";

// How long an answer may take, in milliseconds.
const PATIENCE = 10000;

/** The node refuses a call: a problem document. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? `status ${status}`);
    Object.assign(this, { status, code: problem?.code ?? "", retryAfterMs: problem?.retry_after_ms ?? null });
  }
}

/** There is no answer. */
export class Lost extends Error {}

const watchers = { lost: new Set(), stranger: new Set() };

/** Calls `act` when a call gets no answer (`lost`), or the node asks who calls (`stranger`). */
export const on = (what, act) => watchers[what].add(act);
const tell = (what, error) => watchers[what].forEach((act) => act(error));

/** Reads a document. `signal` gives the call up. Nobody is told that a call of `isLook` gets no answer. */
export const get = (path, signal, isLook = false) => call(path, { signal, isLook });

/** Gives an order. The token, if there is one, goes into the header alone. */
export function post(path, body, token) {
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  return call(path, { method: "POST", headers, body: JSON.stringify(body), quiet: true });
}

async function call(path, { quiet, signal, isLook, ...options }) {
  const patience = AbortSignal.timeout(PATIENCE);
  const signals = signal ? AbortSignal.any([signal, patience]) : patience;
  let answer;
  let text;
  try {
    answer = await fetch(path, { ...options, signal: signals, cache: "no-store", redirect: "error" });
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const lost = new Lost(patience.aborted ? `no answer within ${PATIENCE / 1000} s` : "the node cannot be reached");
    if (!isLook) tell("lost", lost);
    throw lost;
  }
  const document = parsed(text);
  if (answer.ok) {
    if (document?.at) heard(document.at);
    return document;
  }
  const refused = new Refused(answer.status, document);
  if (answer.status === 401 && !quiet) tell("stranger", refused);
  throw refused;
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}
