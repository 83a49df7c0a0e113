// Filters as the address has them, and as the node wants them.

/** The states of a lease, in the order in which they matter to somebody on call. */
export const STATES = ["fencing", "cooling", "offered", "held", "free"];
/** The states that are listed unless the query says otherwise: free keys only when somebody asks for them. */
export const SHOWN_STATES = STATES.filter((state) => state !== "free");
/** How many leases or sessions a page has. */
export const PAGE = 100;

/** The states that a query asks for. */
export function statesOf(query) {
  const named = (query.state ?? "").split(",").filter((state) => STATES.includes(state));
  return named.length ? named : SHOWN_STATES;
}

/** The text for the address of these states; empty for those that are listed anyway. */
export function statesText(states) {
  const sorted = STATES.filter((state) => states.includes(state));
  return sorted.join() === SHOWN_STATES.join() ? "" : sorted.join();
}

/** The path of a page of leases. */
export function leasesPath(query) {
  const { prefix, owner, pool, session, after, before } = query;
  const pairs = { prefix, owner, pool, session, state: statesOf(query).join(), limit: PAGE, after, before };
  return path("/v1/leases", pairs);
}

/** The path of a page of sessions. */
export function sessionsPath({ owner, after }) {
  return path("/v1/sessions", { owner, limit: PAGE, after });
}

/** The parameters by which events are filtered. */
export function eventsFilter({ prefix, owner, pool, types }) {
  return Object.fromEntries(Object.entries({ prefix, owner, pool, types }).filter(([, value]) => value));
}

/** A path with a query. What is empty is left out. */
export function path(base, pairs) {
  const filled = Object.entries(pairs).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(filled).toString();
  return text ? `${base}?${text}` : base;
}

/** Whether an event may change a page of leases with this query. Which keys are held before it is not known. */
export function concerns(query, data) {
  const owners = [data.owner, data.previous?.owner];
  return data.key.startsWith(query.prefix ?? "")
    && (!query.owner || owners.includes(query.owner))
    && (!query.pool || data.pool === query.pool);
}
