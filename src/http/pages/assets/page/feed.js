// The events: the last ones first, then live. They are handed on in batches, four a second at most.

import { get } from "./api.js";
import { path } from "./filters.js";
import { KINDS, short } from "./kinds.js";
import { lastEvents } from "./past.js";
import { leaveSlot, takeSlot } from "./slots.js";

const BATCH_MS = 250;
const POLL_MS = 5000;
const AGAIN_MS = 2000;
const REFUSED_MS = 60000;
// A pause that is longer than this is not caught up with: the last events are read anew.
const STALE_MS = 30000;
// A batch has this many events at most, the latest: no list shows more.
const MOST = 200;

/** An event in the form of the page. */
export function told({ id, type, time, data }) {
  return { id, kind: short(type), time, data };
}

/**
 * Follows the events with this filter. `show({ events, fresh, reset })` gets each batch, oldest first; `fresh`: it replaces all
 * before. `say(how)` is told how they come: `connecting`, `live`, `every 5 s`.
 */
export class Feed {
  #filter; #begin; #show; #say;
  #cursor = null; #left = 0; #buffer = []; #missed = null; #flushing = 0; #again = 0;
  #source = null; #abort = null; #generation = 0; #stopped = false; #streams = true;

  constructor(filter, begin, show, say = () => {}) {
    [this.#filter, this.#begin, this.#show, this.#say] = [filter, begin, show, say];
    document.addEventListener("visibilitychange", this.#seen);
    this.#start();
  }

  /** Ends it. */
  stop() {
    this.#stopped = true;
    document.removeEventListener("visibilitychange", this.#seen);
    this.#halt();
  }

  #seen = () => (document.visibilityState === "hidden" ? this.#halt() : this.#start());

  #halt() {
    this.#generation += 1;
    clearTimeout(this.#again);
    this.#abort?.abort();
    this.#close();
    if (this.#left === 0) this.#left = Date.now();
  }

  #close() {
    if (!this.#source) return;
    this.#source.close();
    this.#source = null;
    leaveSlot();
  }

  async #start() {
    if (this.#stopped || document.visibilityState === "hidden") return;
    this.#halt();
    const generation = this.#generation;
    const isMine = () => generation === this.#generation;
    this.#abort = new AbortController();
    this.#say("connecting");
    try {
      if (this.#cursor === null || Date.now() - this.#left > STALE_MS) {
        const { events, next } = await lastEvents(this.#filter, this.#begin, this.#abort.signal);
        if (!isMine()) return;
        [this.#cursor, this.#buffer] = [next, []];
        this.#show({ events: events.map(told), fresh: true });
      }
      this.#left = 0;
      const mayStream = this.#streams && await takeSlot();
      if (!isMine()) return mayStream && leaveSlot();
      if (mayStream) this.#stream(isMine);
      else await this.#poll(isMine);
    } catch (error) {
      if (!isMine()) return;
      if (error.status === 403) this.#say("not allowed");
      this.#later(error.status === 403 ? REFUSED_MS : error.retryAfterMs ?? AGAIN_MS);
    }
  }

  #later(ms) {
    this.#halt();
    if (!this.#stopped) this.#again = setTimeout(() => this.#start(), ms);
  }

  #stream(isMine) {
    const source = new EventSource(path("/v1/events", { ...this.#filter, after: this.#cursor, pace_ms: BATCH_MS }));
    this.#source = source;
    let isOpen = false;
    source.addEventListener("open", () => {
      isOpen = true;
      this.#say("live");
    });
    source.addEventListener("error", () => {
      if (!isMine()) return;
      // A node that refuses the stream may still answer calls, and says why.
      this.#streams = isOpen;
      this.#later(AGAIN_MS);
    });
    const take = (message) => {
      if (message.lastEventId) this.#cursor = message.lastEventId;
      this.#take(told(JSON.parse(message.data)));
    };
    for (const kind of KINDS) source.addEventListener(kind, take);
    source.addEventListener("reset", (message) => {
      if (message.lastEventId) this.#cursor = message.lastEventId;
      this.#missed = JSON.parse(message.data).reason;
      this.#soon();
    });
    source.addEventListener("frozen", (message) => {
      const { frozen, reason } = JSON.parse(message.data);
      const data = { key: "", reason, node: null };
      this.#take({ id: "", kind: frozen ? "frozen" : "thawed", time: new Date().toISOString(), data });
    });
  }

  async #poll(isMine) {
    const { events, next, reset } = await get(path("/v1/events", { ...this.#filter, format: "json", after: this.#cursor }), this.#abort.signal);
    if (!isMine()) return;
    this.#say(`every ${POLL_MS / 1000} s`);
    this.#streams = true;
    this.#cursor = next;
    if (reset) this.#missed = "no-longer-kept";
    events.forEach((event) => this.#take(told(event)));
    if (reset) this.#soon();
    this.#later(POLL_MS);
  }

  #take(event) {
    this.#buffer.push(event);
    if (this.#buffer.length > 2 * MOST) this.#buffer.splice(0, MOST);
    this.#soon();
  }

  #soon() {
    this.#flushing ||= setTimeout(() => {
      const [events, reset] = [this.#buffer.slice(-MOST), this.#missed];
      [this.#flushing, this.#buffer, this.#missed] = [0, [], null];
      if (!this.#stopped) this.#show({ events, fresh: false, reset });
    }, BATCH_MS);
  }
}
