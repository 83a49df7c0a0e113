// Keeps the times on the page true: how long ago, and how much time is left.

import { ago, span } from "./time.js";

const set = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

/** Writes all times that are on the page. */
export function tick(root = document) {
  for (const time of root.querySelectorAll("time[data-at]")) set(time, ago(Number(time.dataset.at)));
  for (const left of root.querySelectorAll("[data-until]")) {
    // A heartbeat that came since is not known yet: what has run out is told as such only by the node.
    const ms = Math.max(0, Number(left.dataset.until) - Date.now());
    set(left, `${left.dataset.words}${ms < 1000 ? "under 1 s" : span(Math.floor(ms / 1000) * 1000)}`);
  }
}

/** Does so every second while the page is visible. */
export function keepTime() {
  setInterval(() => document.visibilityState === "visible" && tick(), 1000);
}
