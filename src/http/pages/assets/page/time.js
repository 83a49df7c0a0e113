// Times and spans as a person reads them. The node's clock counts, not the browser's.

const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"]];

// By how much the node's clock is ahead of the browser's, in milliseconds.
let ahead = 0;

/** Takes the time at which the node made an answer that has just come. */
export function heard(at) {
  const told = Date.parse(at);
  if (Number.isFinite(told)) ahead = told - Date.now();
}

/** The time by the node's clock, in milliseconds since 1970. */
export function now() {
  return Date.now() + ahead;
}

/** `0 ms`, `640 ms`, `12.4 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`. */
export function span(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59950) return `${(ms / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  const whole = Math.max(60000, Math.round(ms / 1000) * 1000);
  const at = UNITS.findIndex(([unit]) => whole >= unit);
  const [unit, name] = UNITS[at];
  const [smaller, smallerName] = UNITS[at + 1] ?? [1000, "s"];
  const rest = Math.floor((whole % unit) / smaller);
  return `${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${smallerName}` : ""}`;
}

/** `just now`, `12 s ago`, `3 min ago`, `2 h ago`, `4 d ago`; `in 3 min` for what is to come. */
export function ago(at, from = now()) {
  const passed = from - at;
  if (Math.abs(passed) < 1500) return "just now";
  const size = Math.abs(passed);
  const [unit, name] = UNITS.find(([one]) => size >= one) ?? [1000, "s"];
  const text = `${Math.floor(size / unit)} ${name}`;
  return passed < 0 ? `in ${text}` : `${text} ago`;
}

/** Date and time, to the second, with the zone of the reader. */
export function full(at) {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "";
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${time(at)} ${zone(date)} (${date.toISOString()})`;
}

/** The time of the day, to the second. */
export function time(at) {
  const date = new Date(at);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** `UTC`, `UTC+02:00`. */
function zone(date) {
  const minutes = -date.getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const two = (number) => String(number).padStart(2, "0");
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
