//! Committed changes that are not in the log yet.
//!
//! A session counts its writes that carry changes. Each log entry says up to which count all of a session's
//! changes are in the log. Each item names the session that wrote it and the count of that write. So any
//! session can tell, even years later, whether an item's changes were logged.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::layout::{LeaseItem, Line, Noted};
use crate::lease::{Key, Nonce};

/// The approximate maximum size of an entry, in bytes. An item may have 400 KB. A smaller limit makes a lost race
/// for the log's end cheaper, because a lost race is charged by the size of the winner.
const MAX_ENTRY_BYTES: usize = 32 << 10;
/// How many reads may fail to find a write of unknown outcome before the write counts as never made. A read
/// without an answer does not count, since the table may be unreachable for any time.
const MAX_LOOKS: u32 = 30;

/// A write whose changes must be logged.
#[derive(Clone, Debug)]
struct Pending {
    /// The count of the write in this session; 0 for changes that are logged in place of another session.
    count: u64,
    key: Key,
    changes: Vec<Noted>,
}

/// A write of unknown outcome.
#[derive(Clone, Debug)]
struct Unsettled {
    key: Key,
    count: u64,
    expected: u64,
    looks: u32,
}

/// The changes and writes that are not finished.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    next: u64,
    /// Writes that were sent and are not settled.
    sent: BTreeSet<u64>,
    pending: VecDeque<Pending>,
    unsettled: Vec<Unsettled>,
    /// The highest count of a committed write.
    pub committed: u64,
    /// Whether the log must name this session.
    pub registered: bool,
    /// Sessions that the log no longer needs to name once everything pending is in it.
    pub over: HashSet<Nonce>,
    /// Sessions whose items are being searched.
    pub recovering: HashSet<Nonce>,
    /// When the last entry was appended or read, by the wall clock. Only the keepalive uses it.
    pub last_entry_ms: u64,
    keepalive_ms: u64,
    /// No write may begin any more, because the store is being closed.
    leaving: bool,
}

impl Outbox {
    /// An empty outbox. After `keepalive_ms` without any entry, an empty entry is due.
    pub fn new(keepalive_ms: u64) -> Self {
        Self { keepalive_ms, ..Self::default() }
    }

    /// A write with changes is about to be sent. Returns its count, or `None` if no write may begin any more.
    pub fn begin(&mut self) -> Option<u64> {
        if self.leaving {
            return None;
        }
        self.next += 1;
        self.sent.insert(self.next);
        Some(self.next)
    }

    /// From now on, no write may begin.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether the outcome of every write is known and every change is logged. Only then may the log stop naming
    /// a session that ends. Otherwise a write could land later, and nobody would log its changes.
    pub fn is_done(&self) -> bool {
        self.sent.is_empty() && self.pending.is_empty()
    }

    /// The write was not made.
    pub fn cancel(&mut self, count: u64) {
        self.sent.remove(&count);
    }

    pub fn commit(&mut self, count: u64, key: &Key, changes: Vec<Noted>) {
        self.sent.remove(&count);
        self.committed = self.committed.max(count);
        self.pending.push_back(Pending { count, key: key.clone(), changes });
    }

    /// The outcome of the write is unknown.
    pub fn outcome_unknown(&mut self, count: u64, key: &Key, expected: u64) {
        self.unsettled.push(Unsettled { key: key.clone(), count, expected, looks: 0 });
    }

    /// Adds changes of another session that the log lacks.
    pub fn repair(&mut self, key: &Key, changes: Vec<Noted>) {
        self.pending.push_back(Pending { count: 0, key: key.clone(), changes });
    }

    /// Drops what waits, because the store went backwards.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// Takes over what waits in another outbox.
    pub fn wait_also(&mut self, other: Self) {
        self.pending.extend(other.pending);
    }

    /// Keys with a write of unknown outcome. They must be read.
    pub fn unresolved(&self) -> Vec<Key> {
        self.unsettled.iter().map(|one| one.key.clone()).collect()
    }

    /// The key was read, and the result did not settle these writes.
    pub fn looked(&mut self, key: &Key) {
        let sent = &mut self.sent;
        self.unsettled.retain_mut(|one| {
            one.looks += u32::from(one.key == *key);
            let keep = one.looks <= MAX_LOOKS;
            if !keep {
                sent.remove(&one.count);
            }
            keep
        });
    }

    /// An item was read. It settles writes of unknown outcome: they are in it, or can never be made.
    pub fn settle(&mut self, item: &LeaseItem, me: Nonce) {
        let mut at = 0;
        while let Some(one) = self.unsettled.get(at) {
            if one.key != item.key || item.revision.0 <= one.expected {
                at += 1;
                continue;
            }
            let one = self.unsettled.swap_remove(at);
            if item.trail.writer == me && item.trail.count == one.count {
                self.commit(one.count, &one.key, item.trail.changes.clone());
            } else {
                // The write was never made, or the write that replaced it carries its changes on.
                self.sent.remove(&one.count);
            }
        }
    }

    /// The item is absent, so an update of it can never be made.
    pub fn settle_absent(&mut self, key: &Key) {
        let sent = &mut self.sent;
        self.unsettled.retain(|one| {
            let keep = one.key != *key || one.expected == 0;
            if !keep {
                sent.remove(&one.count);
            }
            keep
        });
    }

    /// How many writes wait to be logged.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Drops what the log has.
    pub fn forget_logged(&mut self, logged: impl Fn(&Key) -> (u64, u64)) {
        self.pending.retain(|one| {
            let logged = logged(&one.key);
            one.changes.iter().any(|noted| noted.order() > logged)
        });
    }

    /// The lines of the next entry, and how many of the waiting writes they cover. The lines have no duplicates,
    /// and every hole is marked.
    pub fn take_lines(&self, logged: impl Fn(&Key) -> (u64, u64)) -> (Vec<Line>, usize) {
        let mut last: HashMap<&Key, (u64, u64)> = HashMap::new();
        let (mut lines, mut taken, mut bytes) = (Vec::new(), 0, 0);
        for one in &self.pending {
            let size: usize = one.changes.iter().map(|noted| size_of_line(&one.key, noted)).sum();
            if taken > 0 && bytes + size > MAX_ENTRY_BYTES {
                break;
            }
            let before = last.entry(&one.key).or_insert_with(|| logged(&one.key));
            for noted in &one.changes {
                if noted.order() <= *before {
                    continue;
                }
                // A session's key starts again when its record was removed.
                let anew = noted.change.seq == 1 && one.key.is_session();
                let follows = anew || noted.change.seq == before.1 + 1;
                if !follows && before.1 != 0 {
                    lines.push(Line::Hole);
                }
                *before = noted.order();
                lines.push(Line::Change(one.key.clone(), noted.clone()));
            }
            taken += 1;
            bytes += size;
        }
        (lines, taken)
    }

    /// The count up to which everything is logged once the first `taken` waiting writes are.
    pub fn through(&self, taken: usize) -> u64 {
        let left = self.pending.iter().skip(taken).map(|one| one.count).filter(|count| *count > 0);
        left.chain(self.sent.first().copied()).min().map_or(self.next, |first| first - 1)
    }

    /// Whether the log had no new entry for so long that an empty one is due.
    pub fn keepalive_due(&self, now_ms: u64) -> bool {
        self.registered && now_ms.saturating_sub(self.last_entry_ms) > self.keepalive_ms
    }
}

/// The approximate size of a line, in bytes.
fn size_of_line(key: &Key, noted: &Noted) -> usize {
    let change = &noted.change;
    let owner = change.owner.as_ref().map_or(0, |owner| owner.as_str().len());
    let previous = change.previous.as_ref().map_or(0, |(owner, _)| owner.as_str().len());
    let words = change.reason.as_ref().map_or(0, |reason| reason.len())
        + change.actor.as_ref().map_or(0, |actor| actor.len());
    key.as_str().len() + owner + previous + words + 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_unknown_outcome_is_given_up_after_looks_and_not_after_tries() {
        let key = Key::new("k").unwrap();
        let mut outbox = Outbox::new(1000);
        let count = outbox.begin().unwrap();
        outbox.outcome_unknown(count, &key, 5);
        // The table is unreachable for long.
        for _ in 0..10 * MAX_LOOKS {
            assert_eq!(outbox.unresolved().len(), 1);
        }
        assert_eq!(outbox.through(0), 0, "its changes do not count as logged");
        for _ in 0..MAX_LOOKS {
            outbox.looked(&key);
        }
        assert_eq!(outbox.through(0), 0);
        outbox.looked(&key);
        assert!(outbox.unresolved().is_empty() && outbox.is_done());
        assert_eq!(outbox.through(0), 1);
    }

    #[test]
    fn who_leaves_begins_nothing_and_is_not_done_before_all_is_settled() {
        let mut outbox = Outbox::new(1000);
        let count = outbox.begin().unwrap();
        outbox.leave();
        assert!(outbox.begin().is_none() && !outbox.is_done());
        outbox.cancel(count);
        assert!(outbox.is_done());
    }
}
