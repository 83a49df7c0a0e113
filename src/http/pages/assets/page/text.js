// Texts as a person reads them.

import { HIDDEN } from "./hidden.js";

/** The text with every character that is not seen written as an escape, so that no name can imitate another. */
export function shown(text) {
  return String(text ?? "").replace(HIDDEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

/** `1 key`, `3 keys`, `12,000 keys`. */
export function count(number, one, many) {
  return `${grouped(number)} ${number === 1 ? one : many}`;
}

/** A number with separators between its thousands. */
export function grouped(number) {
  return number === null || number === undefined ? "" : Number(number).toLocaleString("en");
}

/** A URL without its scheme. */
export function host(url) {
  return String(url ?? "").replace(/^https?:\/\//, "").replace(/\/$/, "");
}

/** A word as the name of a column or a heading. */
export function capital(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
