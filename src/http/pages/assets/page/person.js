// Who sits before the page. The cookie is good for reading alone. An order shows a token, which is never stored.

import { get, post } from "./api.js";

// How long a token is kept in memory if the person wants that, in milliseconds.
const KEPT = 600000;

let who = null;
let kept = null;

/** Who the person is, as far as the node knows: `open`, `name`, `may` by verb, `cookie`. */
export const person = () => who;

/** Asks the node who the person is. */
export async function recognise() {
  who = await get("/sign-in");
  return who;
}

/** Changes the token for a cookie. */
export const signIn = (token) => post("/sign-in", { token });

/** Ends the cookie, and forgets the token. */
export async function signOut() {
  forgetToken();
  await post("/sign-out", {});
  who = null;
}

/** Keeps a token in the memory of this page, for ten minutes. */
export function keepToken(token) {
  forgetToken();
  kept = { token, timer: setTimeout(forgetToken, KEPT) };
}

/** The token that is kept, if there is one. */
export const keptToken = () => kept?.token ?? null;

/** Forgets it. */
export function forgetToken() {
  clearTimeout(kept?.timer);
  kept = null;
}
