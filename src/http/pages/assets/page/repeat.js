// Work that is done again and again. A hidden tab sends no requests.

const all = new Set();

/**
 * Does `work(signal)` soon, and again after a rest of `rest(took)` milliseconds, where `took` is how long the work took.
 * A hidden page gives up what is in progress, and goes on as soon as it is visible. `now()` does it at once, `stop()` ends it.
 */
export function repeat(work, rest) {
  const one = { timer: 0, abort: null, again: false, stopped: false };
  const run = async () => {
    clearTimeout(one.timer);
    if (one.stopped || document.visibilityState === "hidden") return;
    const abort = new AbortController();
    one.abort?.abort();
    one.abort = abort;
    const began = performance.now();
    try {
      await work(abort.signal);
    } catch (error) {
      if (!abort.signal.aborted) console.debug(String(error));
    }
    if (one.abort !== abort) return;
    one.abort = null;
    one.timer = setTimeout(run, rest(performance.now() - began));
  };
  one.now = run;
  one.pause = () => {
    clearTimeout(one.timer);
    one.abort?.abort();
    one.abort = null;
  };
  one.stop = () => {
    one.stopped = true;
    one.pause();
    all.delete(one);
  };
  all.add(one);
  one.timer = setTimeout(run, 0);
  return one;
}

/** Does all work now that is repeated. */
export const refresh = () => all.forEach((one) => one.now());

document.addEventListener("visibilitychange", () => {
  all.forEach((one) => (document.visibilityState === "hidden" ? one.pause() : one.now()));
});
