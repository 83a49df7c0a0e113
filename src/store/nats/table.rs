//! The store's data in memory: every key's latest record, and the latest changes of all keys.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use super::{
    super::{
        Committed, Counted, Counts, Found, Position, Range, StoreError, census::Census, last_keys,
        quotas::Quotas,
    },
    message,
    subject::Name,
};
use crate::lease::{Condition, Key, Policies, Revision};

/// How many of the latest changes are kept in memory. They take about 20 MiB.
const RING: usize = 65_536;
/// How many runs of missed sequences are kept apart. Beyond that, the two oldest are merged, which can only
/// report a gap too many.
const MISSED: usize = 4096;

/// A message from the stream.
#[derive(Clone, Debug)]
pub(super) struct Brought {
    pub sequence: u64,
    pub name: Name,
    pub removal: bool,
    pub payload: bytes::Bytes,
}

#[derive(Debug)]
struct Entry {
    revision: Revision,
    bytes: Arc<[u8]>,
    condition: Condition,
}

#[derive(Debug, Default)]
pub(super) struct MessageDelta {
    pub changes: Vec<Committed>,
    /// Whether changes before them were missed, or the message's own changes cannot be read.
    pub lost: bool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    index: BTreeMap<Key, Entry>,
    live_bytes: u64,
    sessions: u64,
    ring: VecDeque<Committed>,
    /// The ring has everything after this.
    floor: Position,
    latest: Position,
    /// The stream has everything after this, as far as is known.
    kept: Position,
    /// The last sequence that was seen. Every sequence before it was seen, or is in `missed`.
    consumed: u64,
    /// Runs of sequences that the stream dropped before this node saw them, with both ends included.
    missed: VecDeque<(u64, u64)>,
    quotas: Quotas,
    census: Census,
}

fn at(sequence: u64) -> Position {
    Position { revision: Revision(sequence), index: 0 }
}

impl Table {
    /// An empty table, for a stream whose oldest message has this sequence.
    pub fn new(first_sequence: u64) -> Self {
        let kept = at(first_sequence.saturating_sub(1));
        Self { kept, ..Self::default() }
    }

    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    pub fn latest(&self) -> Position {
        self.latest
    }

    /// Everything after this position is in memory.
    pub fn floor(&self) -> Position {
        self.floor
    }

    pub fn earliest(&self) -> Position {
        self.kept.min(self.floor)
    }

    /// Records that the stream dropped changes up to here.
    pub fn forgot(&mut self, revision: Revision) {
        // A write makes at most two changes.
        self.kept = self.kept.max(Position { revision, index: 1 });
    }

    pub fn keys(&self) -> u64 {
        self.index.len() as u64
    }

    pub fn counts(&self) -> Counts {
        Counts { keys: self.keys() - self.sessions, sessions: self.sessions }
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The revision of a key's record, as far as is known.
    pub fn revision(&self, key: &Key) -> Revision {
        self.index.get(key).map_or(Revision::ABSENT, |entry| entry.revision)
    }

    /// Takes in a key's last message while the store is loaded.
    pub fn load(&mut self, brought: &Brought) {
        let told = self.record(brought);
        if let Some(last) = told.changes.last() {
            self.latest = self.latest.max(last.position);
        }
    }

    /// Everything up to this sequence was loaded. Changes follow from here.
    pub fn loaded(&mut self, last: u64) {
        self.consumed = self.consumed.max(last);
        // The last write that made a change need not be the last one of its key.
        self.latest = self.latest.max(at(last));
        self.floor = self.latest;
    }

    /// Takes in the next message of the stream. Returns its effect and the position before its changes; `None` if
    /// the message was seen before.
    pub fn follow(&mut self, brought: &Brought) -> Option<(MessageDelta, Position)> {
        if brought.sequence <= self.consumed {
            return None;
        }
        self.skip_to(brought.sequence - 1);
        self.consumed = brought.sequence;
        let told = self.record(brought);
        if told.lost {
            self.ring.clear();
            self.latest = self.latest.max(at(brought.sequence - 1));
            self.floor = self.latest;
        }
        let resume = self.latest;
        for change in &told.changes {
            if self.ring.len() == RING
                && let Some(oldest) = self.ring.pop_front()
            {
                self.floor = oldest.position;
            }
            self.latest = change.position;
            self.ring.push_back(change.clone());
        }
        Some((told, resume))
    }

    /// The stream no longer has what it had up to this sequence.
    pub fn skip_to(&mut self, last: u64) {
        if last <= self.consumed {
            return;
        }
        self.missed.push_back((self.consumed + 1, last));
        self.consumed = last;
        if self.missed.len() > MISSED
            && let (Some(first), Some(second)) = (self.missed.pop_front(), self.missed.front_mut())
        {
            second.0 = first.0;
        }
    }

    fn was_missed(&self, revision: Revision) -> bool {
        let after = self.missed.partition_point(|(first, _)| *first <= revision.0);
        after > 0 && self.missed[after - 1].1 >= revision.0
    }

    fn record(&mut self, brought: &Brought) -> MessageDelta {
        let Name::Lease(Some(key)) = &brought.name else {
            // A subject that names no key holds no key's changes.
            return MessageDelta::default();
        };
        let revision = Revision(brought.sequence);
        if brought.removal {
            if self.revision(key) < revision {
                self.remove(key);
            }
            return MessageDelta::default();
        }
        self.put(key, revision, &brought.payload, || {
            let record = message::found(key, revision, &brought.payload).record;
            record.map_or(Condition::UNREADABLE, |record| record.condition())
        });
        match read_changes(key, revision, &brought.payload) {
            Some((expected, changes)) => MessageDelta { changes, lost: self.was_missed(expected) },
            None => MessageDelta { changes: Vec::new(), lost: true },
        }
    }

    /// A key's record was written. If this is news, `condition` says what counts of it.
    pub fn put(
        &mut self,
        key: &Key,
        revision: Revision,
        bytes: &[u8],
        condition: impl FnOnce() -> Condition,
    ) {
        if self.revision(key) >= revision {
            return;
        }
        let condition = condition();
        // A copy, because the message may be a slice of a much larger buffer.
        let entry = Entry { revision, bytes: bytes.into(), condition };
        self.live_bytes += entry.bytes.len() as u64;
        let old = self.index.insert(key.clone(), entry);
        self.census.change(key, old.as_ref().map(|old| old.condition), Some(condition));
        match old {
            Some(old) => self.live_bytes -= old.bytes.len() as u64,
            None => {
                self.sessions += u64::from(key.is_session());
                self.quotas.added(key);
            }
        }
    }

    /// A key's record is gone.
    pub fn remove(&mut self, key: &Key) {
        if let Some(old) = self.index.remove(key) {
            self.live_bytes -= old.bytes.len() as u64;
            self.census.change(key, Some(old.condition), None);
            self.sessions -= u64::from(key.is_session());
            self.quotas.removed(key);
        }
    }

    /// How many keys are in each state, and up to `most` keys whose fences failed.
    pub fn census(&self, most: usize) -> Counted {
        let (failed, more_failed) = self.census.failed(most);
        let when = |key: Key| {
            let entry = self.index.get(&key);
            let found = entry.map(|entry| message::found(&key, entry.revision, &entry.bytes));
            let ended = found.and_then(|found| found.record.ok()?.ended_at_ms());
            (key, ended)
        };
        let failed = failed.into_iter().map(when).collect();
        Counted { states: self.census.states(), failed, more_failed }
    }

    /// From now on, these policies limit the number of keys.
    pub fn bound_keys(&mut self, policies: &Arc<Policies>) {
        self.quotas.set(policies, visitor(&self.index));
    }

    /// Takes over from an earlier table, which this newly loaded one replaces.
    pub fn take_over(&mut self, other: &mut Self) {
        let quotas = std::mem::take(&mut other.quotas);
        self.quotas.take_over(quotas, visitor(&self.index));
    }

    /// Whether a policy limits the number of keys like this one.
    pub fn bounds(&self, key: &Key) -> bool {
        self.quotas.bounds(key)
    }

    /// Admits a key that is expected to have no record and will get one. Returns whether it was counted, and so
    /// must be settled.
    pub fn admit(&mut self, key: &Key) -> Result<bool, StoreError> {
        if self.index.contains_key(key) {
            return Ok(false);
        }
        self.quotas.admit(key).map(|()| true)
    }

    /// The outcome of a write that was admitted is known.
    pub fn settle(&mut self, key: &Key) {
        self.quotas.settle(key);
    }

    /// The last keys that start with `prefix` and sort before `before`, in descending order.
    pub fn keys_before(&self, prefix: &str, before: Option<&str>, limit: usize) -> Vec<Key> {
        last_keys(&self.index, prefix, before, limit)
    }

    /// Up to `want` records of a range, still encoded.
    pub fn scan(&self, range: &Range, want: usize) -> Vec<(Key, Revision, Arc<[u8]>)> {
        let prefix = range.prefix.as_str();
        let from = match &range.after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        self.index
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(prefix))
            .take(want)
            .map(|(key, entry)| (key.clone(), entry.revision, Arc::clone(&entry.bytes)))
            .collect()
    }

    /// The changes after a position; `None` if the ring does not reach back that far.
    pub fn after(&self, after: Position, limit: usize) -> Option<Vec<Committed>> {
        if after < self.floor {
            return None;
        }
        let first = self.ring.partition_point(|change| change.position <= after);
        Some(self.ring.iter().skip(first).take(limit).cloned().collect())
    }
}

/// A function that calls its argument for each key that starts with a prefix.
fn visitor(index: &BTreeMap<Key, Entry>) -> impl Fn(&str, &mut dyn FnMut(&Key)) {
    |prefix, each| {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys = index.range::<str, _>(from).map(|(key, _)| key);
        keys.take_while(|key| key.as_str().starts_with(prefix)).for_each(each);
    }
}

/// The revision that a message expected, and its changes; `None` if they cannot be read.
pub(super) fn read_changes(
    key: &Key,
    revision: Revision,
    bytes: &[u8],
) -> Option<(Revision, Vec<Committed>)> {
    let message = message::parse(bytes).ok().filter(|message| message.key == key.as_str())?;
    let changes = message.changes().ok()?;
    if changes.is_empty() {
        return Some((message.expected, Vec::new()));
    }
    let record = message.record().ok()?;
    let committed = changes.into_iter().zip(0..).map(|(mut change, index)| {
        change.resolve(record.epoch, revision);
        let position = Position { revision, index };
        Committed { position, key: key.clone(), node: record.node, change, at_ms: message.at_ms }
    });
    Some((message.expected, committed.collect()))
}

/// Decodes the result of [`Table::scan`].
pub(super) fn decode(found: Vec<(Key, Revision, Arc<[u8]>)>) -> Vec<(Key, Found)> {
    let decode = |(key, revision, bytes): (Key, Revision, Arc<[u8]>)| {
        let found = message::found(&key, revision, &bytes);
        (key, found)
    };
    found.into_iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_runs_are_known_one_by_one() {
        let mut table = Table::new(1);
        table.loaded(10);
        for (from, to) in [(11, 12), (20, 29)] {
            table.consumed = from - 1;
            table.skip_to(to);
        }
        let missed = |n| table.was_missed(Revision(n));
        assert!(!missed(0) && !missed(10) && missed(11) && missed(12) && !missed(13));
        assert!(!missed(19) && missed(20) && missed(29) && !missed(30));
    }

    #[test]
    fn too_many_runs_are_joined_and_none_is_forgotten() {
        let mut table = Table::new(1);
        for n in 0..2 * MISSED as u64 {
            table.consumed = 10 * n;
            table.skip_to(10 * n + 1);
        }
        assert_eq!(table.missed.len(), MISSED);
        assert!((0..2 * MISSED as u64).all(|n| table.was_missed(Revision(10 * n + 1))));
    }

    #[test]
    fn a_removal_does_not_undo_a_later_write() {
        let mut table = Table::new(1);
        let key = Key::new("a").unwrap();
        let name = Name::Lease(Some(key.clone()));
        table.put(&key, Revision(5), b"later", || Condition::UNREADABLE);
        let removal = Brought { sequence: 4, name, removal: true, payload: bytes::Bytes::new() };
        table.follow(&removal);
        assert_eq!((table.revision(&key), table.live_bytes()), (Revision(5), 5));
        table.follow(&Brought { sequence: 6, ..removal });
        assert_eq!((table.keys(), table.live_bytes()), (0, 0));
    }
}
