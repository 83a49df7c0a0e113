// The kinds of events: what they are called, and to which cause they belong in the plot.

/** The causes of changes in the plot: name, colour variable, dashes, and the short types that count. */
export const CAUSES = [
  { name: "granted", colour: "--plot-1", dash: [], kinds: ["granted"] },
  { name: "given back", colour: "--plot-2", dash: [6, 3], kinds: ["released", "transferred"] },
  { name: "expired", colour: "--plot-3", dash: [2, 3], kinds: ["expired"] },
  { name: "taken away", colour: "--plot-4", dash: [8, 3, 2, 3], kinds: ["revoked", "reclaimed", "session-ended"] },
  {
    name: "fences and delays",
    colour: "--plot-5",
    dash: [12, 4],
    kinds: ["fencing", "fenced", "fence-failed", "fence-skipped", "cooled"],
  },
];

/** Every short type of an event of a lease. */
export const KINDS = [
  "granted", "released", "expired", "revoked", "reclaimed", "transferred", "session-ended", "handover-requested",
  "fencing", "fenced", "fence-failed", "fence-skipped", "cooled", "pinned", "unpinned", "forgotten",
];

const TONES = {
  "granted": "good", "fenced": "good", "cooled": "good",
  "expired": "warn", "revoked": "warn", "reclaimed": "warn", "session-ended": "warn", "handover-requested": "warn",
  "fencing": "warn", "fence-skipped": "warn",
  "fence-failed": "bad", "frozen": "bad", "reset": "bad",
};

/** The tone in which a kind is shown: `good`, `warn`, `bad` or `plain`. The word itself says what it is. */
export const tone = (kind) => TONES[kind] ?? "plain";

/** The short type in a type such as `io.tenure.lease.granted`. */
export const short = (type) => type.replace(/^io\.tenure\.lease\./, "");
