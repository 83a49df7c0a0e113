// A browser opens six connections to one host. Pages of one browser leave some of them to calls that are not streams.
//
// In a secure context (HTTPS, or this machine), the browser's locks count the streams of all pages. Elsewhere there are no
// locks: the pages ask each other, and a page that answers late may open a stream too many.

const MOST = 4;
// How long other pages have to answer, in milliseconds.
const WITHIN = 250;

// For each stream of this page, how to give its slot back.
const held = [];

/** Whether this page may open a stream. It holds a slot from then on. */
export async function takeSlot() {
  if (navigator.locks) return takeLock();
  if (askOthers && await askOthers() >= MOST) return false;
  held.push(() => {});
  return true;
}

/** Gives a slot back. */
export function leaveSlot() {
  held.pop()?.();
}

async function takeLock() {
  for (let slot = 0; slot < MOST; slot += 1) {
    const isMine = await new Promise((tell) => {
      navigator.locks.request(`tenure-stream-${slot}`, { ifAvailable: true }, (lock) => {
        tell(lock !== null);
        return lock && new Promise((leave) => held.push(leave));
      });
    });
    if (isMine) return true;
  }
  return false;
}

// Asks the other pages, and counts those that have a stream or are to get one first.
const askOthers = "BroadcastChannel" in globalThis && !navigator.locks ? (() => {
  const channel = new BroadcastChannel("tenure-streams");
  // The lot that this page has drawn while it asks. Of two pages that ask at once, the lower lot is first.
  let lot = null;
  let heard = 0;
  channel.addEventListener("message", ({ data }) => {
    if (data === "me") heard += 1;
    else if (held.length > 0 || (lot !== null && lot < data)) channel.postMessage("me");
  });
  return async () => {
    heard = 0;
    lot = Math.random();
    channel.postMessage(lot);
    await new Promise((go) => setTimeout(go, WITHIN));
    lot = null;
    return heard;
  };
})() : null;
