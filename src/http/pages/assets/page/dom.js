// Elements. Texts from the node become text nodes and nothing else.

import { shown } from "./text.js";
import { ago, full } from "./time.js";
import { leaseLink } from "./route.js";

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

const filled = (children) => children.flat(Infinity).filter((child) => ![null, undefined, false, ""].includes(child));

/** An element: attributes by name, `on…` as listeners; children are elements, texts, or nothing. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...filled(children));
  return element;
}

/** A text that may be long. All of it can be selected, and it is in the title. */
export function text(content, kind) {
  const safe = shown(content);
  return h("span", { class: kind ? `text ${kind}` : "text", title: safe }, safe);
}

/** How long ago something was; the full time is in the title. */
export function when(at) {
  if (!at) return null;
  const time = Date.parse(at);
  return h("time", { datetime: at, title: full(time), "data-at": time }, ago(time));
}

/** The time that is left until a time by the browser's clock, in milliseconds since 1970. It counts down. */
export const until = (end, words) => h("span", { "data-until": end, "data-words": words ?? "" });

/** A link to the page of a lease. */
export const keyLink = (key) => h("a", { class: "text key", href: leaseLink(key), title: shown(key) }, shown(key));

/** A mark for what the answering node alone knows. */
export const thisNode = () => h("span", { class: "chip", title: "The node that answers counts this, and no other node." }, "this node");

const SIGNS = { held: "●", free: "○", offered: "◐", cooling: "◔", fencing: "▲", good: "●", warn: "▲", bad: "■", plain: "·" };

/** A word with a sign and a colour. The word alone says all. */
export function badge(word, tone = word) {
  return h("span", { class: `badge ${tone}` }, h("span", { "aria-hidden": "true" }, SIGNS[tone] ?? "·"), ` ${shown(word)}`);
}

/** Writes a message, unless it is there: whoever listens to the page is not told the same again. */
export function say(element, message) {
  if (element.textContent !== message) element.textContent = message;
}

/** Puts children in the place of others. */
export function replace(element, ...children) {
  element.replaceChildren(...filled(children));
}

const stamps = new WeakMap();

/**
 * Draws children anew if what they show has changed. The focus stays on the link with the same address.
 */
export function redraw(element, stamp, make) {
  if (stamps.get(element) === stamp) return;
  stamps.set(element, stamp);
  const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  replace(element, [make()]);
  if (focused) [...element.querySelectorAll("a")].find((one) => one.getAttribute("href") === focused)?.focus();
}

/** A short message for screen readers. */
export function announce(message) {
  say($("announce"), message);
}
