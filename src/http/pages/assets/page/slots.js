// A browser opens six connections to one host. Pages of one browser leave some of them to calls that are not streams.

const MOST = 4;
const ANSWER_WITHIN = 80;

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("tenure-streams") : null;
let streaming = 0;
let heard = 0;

channel?.addEventListener("message", ({ data }) => {
  if (data === "who" && streaming) channel.postMessage("me");
  if (data === "me") heard += 1;
});

/** Whether this page may open a stream. It holds a slot from then on. */
export async function takeSlot() {
  if (channel) {
    heard = 0;
    channel.postMessage("who");
    await new Promise((go) => setTimeout(go, ANSWER_WITHIN));
    if (heard >= MOST) return false;
  }
  streaming += 1;
  return true;
}

/** Gives the slot back. */
export function leaveSlot() {
  streaming = Math.max(0, streaming - 1);
}
