//! Changes that were committed and are on their way into the log.
//!
//! A session counts its writes that carry changes. Each log entry says up to which count all of a
//! session's changes are in the log, and each item says which of whose writes it is: so anybody can
//! tell, years later, whether an item's changes were logged.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::layout::{LeaseItem, Line, Noted};
use crate::lease::{Key, Nonce};

/// An entry holds about so many bytes at most. An item may have 400 KB; smaller ones make a lost race
/// for the log's end cheaper, for that is charged by the size of the winner.
const MAX_ENTRY_BYTES: usize = 32 << 10;
/// How often a write of unknown outcome is looked for in vain before it counts as never made. A look that
/// brought no answer is none: the table may be out of reach for as long as it likes.
const MAX_LOOKS: u32 = 30;

/// A write whose changes are to be logged.
#[derive(Clone, Debug)]
struct Pending {
    /// Which write of this session; 0 for what is logged in another's stead.
    count: u64,
    key: Key,
    changes: Vec<Noted>,
}

/// A write that perhaps happened.
#[derive(Clone, Debug)]
struct Unsettled {
    key: Key,
    count: u64,
    expected: u64,
    looks: u32,
}

/// What is on its way.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    next: u64,
    /// Writes that were sent and are not settled.
    sent: BTreeSet<u64>,
    pending: VecDeque<Pending>,
    unsettled: Vec<Unsettled>,
    /// The highest count that was committed.
    pub committed: u64,
    /// Whether the log is to name this session.
    pub registered: bool,
    /// Sessions that the log need not name any more, once all that is pending is in it.
    pub over: HashSet<Nonce>,
    /// Sessions whose items are being looked through.
    pub recovering: HashSet<Nonce>,
    /// When the last entry was appended or read, wall clock: for the keepalive alone.
    pub last_entry_ms: u64,
    keepalive_ms: u64,
    /// No write is begun any more: the store is being closed.
    leaving: bool,
}

impl Outbox {
    /// An empty one. After `keepalive_ms` without any entry an empty one is due.
    pub fn new(keepalive_ms: u64) -> Self {
        Self { keepalive_ms, ..Self::default() }
    }

    /// A write with changes is about to be sent; `None` when none may be any more.
    pub fn begin(&mut self) -> Option<u64> {
        if self.leaving {
            return None;
        }
        self.next += 1;
        self.sent.insert(self.next);
        Some(self.next)
    }

    /// From now on no write is begun.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether it is known of every write what became of it, and all is logged: only then may the log
    /// stop naming a session that ends. Of a write that lands after that nobody would log the changes.
    pub fn is_done(&self) -> bool {
        self.sent.is_empty() && self.pending.is_empty()
    }

    /// It was not made.
    pub fn cancel(&mut self, count: u64) {
        self.sent.remove(&count);
    }

    /// It was.
    pub fn commit(&mut self, count: u64, key: &Key, changes: Vec<Noted>) {
        self.sent.remove(&count);
        self.committed = self.committed.max(count);
        self.pending.push_back(Pending { count, key: key.clone(), changes });
    }

    /// Nobody knows.
    pub fn doubt(&mut self, count: u64, key: &Key, expected: u64) {
        self.unsettled.push(Unsettled { key: key.clone(), count, expected, looks: 0 });
    }

    /// Changes of another session that the log lacks.
    pub fn repair(&mut self, key: &Key, changes: Vec<Noted>) {
        self.pending.push_back(Pending { count: 0, key: key.clone(), changes });
    }

    /// Nothing waits any more: the store went backwards.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
    }

    /// Takes over what waits in another.
    pub fn wait_also(&mut self, other: Self) {
        self.pending.extend(other.pending);
    }

    /// Keys with a write of unknown outcome that is to be looked for.
    pub fn doubtful(&self) -> Vec<Key> {
        self.unsettled.iter().map(|one| one.key.clone()).collect()
    }

    /// The key was looked at, and what was found did not settle these writes.
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

    /// An item was read: a write that was in doubt may be there, or can never be.
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
                // Never made, or overwritten by one who carried its changes on.
                self.sent.remove(&one.count);
            }
        }
    }

    /// The item is not there: an update of it can never be made.
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

    /// The lines of the next entry, without duplicates and with every hole marked, and how many of
    /// the writes that wait they cover.
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
                // A session's key begins anew when its record was forgotten.
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

    /// Up to which count everything is logged, once the first `taken` writes that wait are.
    pub fn through(&self, taken: usize) -> u64 {
        let left = self.pending.iter().skip(taken).map(|one| one.count).filter(|count| *count > 0);
        left.chain(self.sent.first().copied()).min().map_or(self.next, |first| first - 1)
    }

    /// Whether the log stood still for so long that an empty entry is due.
    pub fn keepalive_due(&self, now_ms: u64) -> bool {
        self.registered && now_ms.saturating_sub(self.last_entry_ms) > self.keepalive_ms
    }
}

/// About how many bytes a line has.
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
    fn a_write_in_doubt_is_given_up_after_looks_and_not_after_tries() {
        let key = Key::new("k").unwrap();
        let mut outbox = Outbox::new(1000);
        let count = outbox.begin().unwrap();
        outbox.doubt(count, &key, 5);
        // The table is out of reach for long.
        for _ in 0..10 * MAX_LOOKS {
            assert_eq!(outbox.doubtful().len(), 1);
        }
        assert_eq!(outbox.through(0), 0, "its changes are not said to be logged");
        for _ in 0..MAX_LOOKS {
            outbox.looked(&key);
        }
        assert_eq!(outbox.through(0), 0);
        outbox.looked(&key);
        assert!(outbox.doubtful().is_empty() && outbox.is_done());
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
