// Plots of the series, by uPlot. Each has its newest figures as words, and all of them as a table.

import { h, replace, thisNode } from "./dom.js";
import { isEmpty } from "./series.js";
import { full, time } from "./time.js";

const HEIGHT = 150;

let library = null;
/** The library, which is read when the first plot is drawn. */
const uplot = () => (library ??= import("./uplot.js").then((module) => module.default));

/** The room for the labels of an axis: that of the widest one. */
function widest(self, labels, at) {
  const { ctx, axes } = self;
  [ctx.font] = axes[at].font;
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width / devicePixelRatio);
  return Math.ceil(Math.max(40, ...widths)) + 18;
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A plot of several lines: `{ name, colour, dash }`, and how a value is written. `show(columns)` draws the columns of a
 * series: times in seconds, then one column for each line.
 */
export function plot({ title, unit, hint, lines, write, ofNode }) {
  const canvas = h("div", { class: "canvas", role: "img" });
  const nothing = h("p", { class: "quiet", hidden: true }, "Nothing happened in this time.");
  const rows = h("div", { class: "scroll" });
  const details = h("details", { ontoggle: () => details.open && asTable() }, h("summary", {}, "As a table"), rows);
  const element = h("figure", {}, h("figcaption", {}, h("h3", {}, title, " ", h("span", { class: "quiet" }, unit), " ", ofNode && thisNode()),
    h("p", { class: "quiet" }, hint)), canvas, nothing, details);
  let [drawn, columns, closed] = [null, null, false];

  function options(width) {
    const [ink, line] = [style("--quiet"), style("--line")];
    const axis = { stroke: ink, font: "11px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    return {
      width, height: HEIGHT, cursor: { y: false, drag: { x: false, y: false }, sync: { key: "tenure" } },
      legend: { live: true },
      scales: { x: { time: true }, y: { range: (_, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, size: 24, values: (_, splits) => splits.map((at) => time(at * 1000).slice(0, 5)), space: 60 },
        { ...axis, size: widest, values: (_, splits) => splits.map(write) },
      ],
      series: [
        { label: "Time", value: (_, at) => (at === null ? "" : time(at * 1000)) },
        ...lines.map(({ name, colour, dash }) => ({
          label: name, stroke: style(colour), dash, width: 1.5, points: { show: columns[0].length < 90, size: 4, fill: style(colour) },
          value: (_, value) => (value === null || value === undefined ? "–" : write(value)),
        })),
      ],
    };
  }

  async function draw() {
    let uPlot;
    try {
      uPlot = await uplot();
    } catch {
      // The table has the same figures.
      details.open = true;
      return;
    }
    const width = canvas.clientWidth;
    if (closed || !columns || !width) return;
    if (drawn) drawn.setData(columns);
    else drawn = new uPlot(options(width), columns, canvas);
  }

  function again() {
    drawn?.destroy();
    drawn = null;
    draw();
  }

  function asTable() {
    const [times, ...values] = columns ?? [[]];
    const head = h("tr", {}, h("th", { scope: "col" }, "Time"), lines.map(({ name }) => h("th", { scope: "col", class: "n" }, name)));
    const body = times.map((at, row) => h("tr", {}, h("th", { scope: "row", title: full(at * 1000) }, time(at * 1000)),
      values.map((column) => h("td", { class: "n" }, column[row] === null ? "–" : write(column[row])))));
    replace(rows, h("table", { class: "plain" }, h("thead", {}, head), h("tbody", {}, body.reverse())));
  }

  // In the next frame: the size of the legend may follow that of the plot.
  const sized = new ResizeObserver(() => requestAnimationFrame(fit));
  function fit() {
    const width = canvas.clientWidth;
    if (closed || !width) return;
    if (!drawn) draw();
    else if (Math.abs(width - drawn.width) > 1) drawn.setSize({ width, height: HEIGHT });
  }
  sized.observe(canvas);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", again);

  function show(next) {
    columns = next;
    const [, ...values] = columns;
    nothing.hidden = !isEmpty(columns);
    const newest = lines.map(({ name }, at) => {
      const value = values[at].at(-1);
      return `${name} ${value === null || value === undefined ? "none" : write(value)}`;
    });
    canvas.setAttribute("aria-label", `${title}, the newest: ${newest.join(", ")}`);
    if (details.open) asTable();
    draw();
  }

  return {
    element, show,
    close: () => {
      closed = true;
      sized.disconnect();
      scheme.removeEventListener("change", again);
      drawn?.destroy();
    },
  };
}
