// The view and the query in the address. They are behind the `#`, so no key gets into the log of a proxy.

/** The views, in the order of the navigation: name, title, and the key after `g` that leads to it. */
export const VIEWS = [
  ["overview", "Overview", "o"],
  ["leases", "Leases", "l"],
  ["sessions", "Sessions", "s"],
  ["pools", "Pools", "p"],
  ["nodes", "Nodes", "n"],
  ["events", "Events", "e"],
  ["churn", "Churn", "c"],
];

/** The view and the query of a hash such as `#/leases?prefix=jobs%2F`. An unknown view is the overview. */
export function parse(hash) {
  const [path, query = ""] = String(hash).replace(/^#\/?/, "").split(/\?(.*)/s);
  const view = path || "overview";
  const known = view === "lease" || VIEWS.some(([name]) => name === view);
  return { view: known ? view : "overview", query: Object.fromEntries(new URLSearchParams(known ? query : "")) };
}

/** The hash of a view with this query. What is empty is left out. */
export function link(view, query = {}) {
  const filled = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(filled).toString();
  return `#/${view === "overview" ? "" : view}${text ? `?${text}` : ""}`;
}

/** The hash of the page of one lease. */
export const leaseLink = (key) => link("lease", { key });
