// What the person may do. The node judges every order itself: this decides only which buttons are there.

/** Whether somebody with these rights may do this to the key, or to every key with the prefix. */
export function may(who, verb, key) {
  if (!who) return false;
  return who.open || (who.may[verb] ?? []).some((prefix) => key.startsWith(prefix));
}

/** Whether somebody may do this to some key. */
export const mayAny = (who, verb) => Boolean(who) && (who.open || (who.may[verb] ?? []).length > 0);
