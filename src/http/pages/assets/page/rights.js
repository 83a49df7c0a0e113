// What the person may do. The node judges every order itself: this decides only which buttons are there.

/** Whether somebody with these rights may do this to the key, or to every key with the prefix. */
export function may(who, verb, key) {
  if (!who) return false;
  const isFor = (one) => key === one || (key.startsWith(`${one}#`) && /^[1-9][0-9]*$/.test(key.slice(one.length + 1)));
  const under = (who.may[verb] ?? []).some((prefix) => key.startsWith(prefix));
  return who.open || under || (who.may_keys?.[verb] ?? []).some(isFor);
}

/** Whether somebody may do this to some key. */
export const mayAny = (who, verb) => Boolean(who) && (who.open || (who.may[verb] ?? []).length > 0 || (who.may_keys?.[verb] ?? []).length > 0);
