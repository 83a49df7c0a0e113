// Cursors of the event stream: the tag of a store, a revision, and an index.

/** The cursor this many revisions earlier, or the beginning; `null` for a text that is no cursor. */
export function earlier(cursor, revisions) {
  const parts = /^([^-]+)-(\d+)-(\d+)$/.exec(cursor);
  if (!parts) return null;
  const [, tag, revision] = parts;
  const at = BigInt(revision) - BigInt(revisions);
  return `${tag}-${at > 0n ? at : 0n}-0`;
}

/** Whether a cursor is that of the beginning. */
export const isBeginning = (cursor) => /^[^-]+-0-0$/.test(cursor);
