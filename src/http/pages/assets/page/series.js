// The series of the node as columns of a plot.

import { CAUSES } from "./kinds.js";

const MINUTE = 60000;
// The latest slice is not over. Until it is this old, its rate says little.
const ENOUGH = 10000;

/** How many changes of each cause there were per minute: the times in seconds, then a column for each cause. */
export function changes(series, now) {
  const points = series.points.filter((point) => age(series, point, now) >= Math.min(ENOUGH, series.step_ms));
  const times = points.map((point) => Date.parse(point.at) / 1000);
  const columns = CAUSES.map(({ kinds }) => points.map((point) => {
    const number = kinds.reduce((sum, kind) => sum + (point.changes[kind] ?? 0), 0);
    return round(number * MINUTE / age(series, point, now));
  }));
  return [times, ...columns];
}

/** One of the spans that the node measured: the times, then the median, the 99th percentile and the longest, in seconds. */
export function spans(series, name) {
  const times = series.points.map((point) => Date.parse(point.at) / 1000);
  const column = (field) => series.points.map(({ this_node: node }) => {
    return node[name].count ? node[name][field] / 1000 : null;
  });
  return [times, column("p50_ms"), column("p99_ms"), column("longest_ms")];
}

/** Whether there is anything to see in the columns. */
export const isEmpty = ([, ...columns]) => columns.every((column) => column.every((value) => !value));

/** How long a slice has lasted, in milliseconds. */
function age(series, point, now) {
  return Math.min(series.step_ms, Math.max(0, now - Date.parse(point.at)));
}

const round = (number) => Math.round(number * 10) / 10;
