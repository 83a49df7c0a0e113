// A browser opens six connections to one host. Pages of one browser leave some of them to calls that are not streams.

const MOST = 4;
// How long other pages have to answer, in milliseconds.
const WITHIN = 80;

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("tenure-streams") : null;
let streaming = 0;
// The lot that this page has drawn while it asks. Of two pages that ask at once, the lower lot is first.
let lot = null;
let heard = 0;

channel?.addEventListener("message", ({ data }) => {
  if (data === "me") heard += 1;
  else if (streaming || (lot !== null && lot < data)) channel.postMessage("me");
});

/** Whether this page may open a stream. It holds a slot from then on. */
export async function takeSlot() {
  if (channel) {
    heard = 0;
    lot = Math.random();
    channel.postMessage(lot);
    await new Promise((go) => setTimeout(go, WITHIN));
    lot = null;
    if (heard >= MOST) return false;
  }
  streaming += 1;
  return true;
}

/** Gives the slot back. */
export function leaveSlot() {
  streaming = Math.max(0, streaming - 1);
}
