// Tables whose rows are kept from one answer to the next: what is the same is not touched, so that focus, selection and
// place stay. On a narrow screen a row is a card.

import { h } from "./dom.js";

/**
 * A table with these columns: `{ title, name, kind, cell(row) }`. `fill(rows, keyOf, nothing)` shows rows; `nothing` is
 * said if there are none.
 */
export function table(caption, columns) {
  const body = h("tbody");
  const head = h("thead", {}, h("tr", {}, columns.map(({ title, kind }) => h("th", { scope: "col", class: kind }, title))));
  const element = h("table", { class: "list" }, h("caption", { class: "unseen" }, caption), head, body);
  const known = new Map();

  const cells = (row) => columns.map(({ title, kind, cell }) => {
    const content = h("div", {}, cell(row));
    return h("td", { class: kind, "data-label": title }, content.hasChildNodes() && content);
  });

  function show(key, row) {
    const stamp = JSON.stringify(row);
    const old = known.get(key);
    if (old?.stamp === stamp) return old;
    const made = cells(row);
    if (!old) return { stamp, line: h("tr", {}, made) };
    made.forEach((cell, at) => {
      const before = old.line.children[at];
      if (!before.isEqualNode(cell)) before.replaceWith(cell);
    });
    return { stamp, line: old.line };
  }

  function fill(rows, keyOf, nothing) {
    const next = new Map(rows.map((row) => [keyOf(row), row]));
    for (const [key, { line }] of known) {
      if (!next.has(key)) {
        line.remove();
        known.delete(key);
      }
    }
    body.querySelector("tr.nothing")?.remove();
    let place = body.firstElementChild;
    for (const [key, row] of next) {
      const shown = show(key, row);
      known.set(key, shown);
      if (shown.line === place) place = place.nextElementSibling;
      else body.insertBefore(shown.line, place);
    }
    if (next.size === 0) body.append(h("tr", { class: "nothing" }, h("td", { colspan: columns.length }, nothing)));
  }

  /** Puts rows on top, and takes away those at the end beyond `most`. */
  function prepend(rows, most) {
    const lines = rows.slice(-most).reverse().map((row) => h("tr", {}, cells(row)));
    body.querySelector("tr.nothing")?.remove();
    body.prepend(...lines);
    while (body.children.length > most) body.lastElementChild.remove();
  }

  function clear(nothing) {
    known.clear();
    body.replaceChildren(h("tr", { class: "nothing" }, h("td", { colspan: columns.length }, nothing)));
  }

  return { element, fill, prepend, clear, rows: () => body.querySelectorAll("tr:not(.nothing)").length };
}
