// Texts as a person reads them.

// Control characters, characters without width, line breaks and changes of text direction. They are shown as escapes,
// so that no name can imitate another. Line breaks and tabs of values are left to the places that show values.
const MISLEADS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text with every misleading character written as an escape. */
export function shown(text) {
  return String(text ?? "").replace(MISLEADS, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
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
