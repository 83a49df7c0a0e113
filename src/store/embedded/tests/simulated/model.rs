//! The expected content of the store.

use std::collections::BTreeMap;

use super::{Seen, life::now};
use crate::{
    lease::{Key, Record, Revision},
    store::{
        Committed, Counted, History, LeaseStore, Meta, Position, Range, embedded::EmbeddedStore,
    },
};

/// A write, or the removal of a record.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub key: Key,
    pub seq: u64,
    pub nonce: u128,
    pub forget: bool,
}

/// What is certain, and which writes have an unknown outcome until the store is opened again.
#[derive(Debug, Default)]
pub(super) struct Model {
    current: BTreeMap<Key, (Revision, Tried)>,
    /// All changes in the store's life, in order.
    changes: Vec<(Revision, Key, u64)>,
    unknown: Vec<Tried>,
    highest: Revision,
    counter: u64,
    identity: Option<(u128, [u8; 32])>,
}

impl Model {
    /// The revision and the last `seq` of a key.
    pub fn now(&self, key: &Key) -> (Revision, u64) {
        self.current.get(key).map_or((Revision::ABSENT, 0), |(revision, t)| (*revision, t.seq))
    }

    /// A nonce that was never used. Its low bits determine the length of the value.
    pub fn nonce(&mut self, length: u64) -> u128 {
        self.counter += 1;
        u128::from(self.counter) << 12 | u128::from(length)
    }

    pub fn acknowledged(&mut self, tried: Tried, revision: Revision) {
        if tried.forget {
            self.current.remove(&tried.key);
            return;
        }
        assert!(revision > self.highest, "{revision:?} was given before: {tried:?}");
        self.highest = revision;
        if !tried.key.is_session() {
            self.changes.push((revision, tried.key.clone(), tried.seq));
        }
        self.current.insert(tried.key.clone(), (revision, tried));
    }

    pub fn unknown(&mut self, tried: Tried) {
        self.unknown.push(tried);
    }

    pub fn nothing_is_unknown(&self) {
        assert!(self.unknown.is_empty(), "{:?}", self.unknown);
    }

    /// Checks an opened store. Everything certain must be there. Of each write with an unknown outcome, it is
    /// certain from now on whether it is there.
    pub fn check(&mut self, store: &EmbeddedStore, seen: &mut Seen) {
        self.check_identity(&store.meta(), store.secret_bytes().expect("a secret").0);
        self.check_history(store);
        self.check_records(store, seen);
        self.unknown.clear();
    }

    fn check_identity(&mut self, meta: &Meta, secret: [u8; 32]) {
        let there = (meta.identity.0, secret);
        assert_eq!(*self.identity.get_or_insert(there), there, "identity and secret");
    }

    /// The retained changes must be the last ones, in order. Only writes with an unknown outcome may follow them.
    fn check_history(&mut self, store: &EmbeddedStore) {
        let earliest = store.earliest();
        let kept = self.changes.partition_point(|(revision, ..)| *revision <= earliest.revision);
        assert!(self.changes.len() - kept >= self.changes.len().min(30), "kept from {earliest:?}");
        let mut there = Vec::new();
        let mut after = earliest;
        loop {
            let History::Changes(page) = now(store.history(after, 50)).unwrap() else {
                panic!("a gap after {after:?}");
            };
            let Some(last) = page.last() else { break };
            after = last.position;
            let seen =
                |change: Committed| (change.position.revision, change.key, change.change.seq);
            there.extend(page.into_iter().map(seen));
        }
        assert!(after == store.latest() || after == Position::default());
        let known = &self.changes[kept..];
        let news = there.split_off(known.len().min(there.len()));
        assert_eq!(there, known, "the history");
        news.into_iter().for_each(|change| self.landed(change));
    }

    /// Takes in a change that is there and was not acknowledged.
    fn landed(&mut self, (revision, key, seq): (Revision, Key, u64)) {
        let mut unknown = self.unknown.iter();
        let tried = unknown.find(|t| t.key == key && t.seq == seq && !t.forget);
        assert!(tried.is_some(), "nobody wrote {key} {seq} at {revision:?}: {:?}", self.unknown);
        assert!(revision > self.highest, "{key} {seq} at {revision:?}");
        self.changes.push((revision, key, seq));
    }

    fn check_census(&self, store: &EmbeddedStore) {
        let mut wanted = Counted::default();
        for (key, (_, tried)) in self.current.iter().filter(|(key, _)| !key.is_internal()) {
            let condition = Self::record(tried).condition();
            *wanted.states.of(condition.state) += 1;
            if condition.fence_failed {
                wanted.failed.push((key.clone(), None));
            }
        }
        assert_eq!(store.census(usize::MAX), Some(wanted));
    }

    fn check_records(&mut self, store: &EmbeddedStore, seen: &mut Seen) {
        let all = Range { prefix: String::new(), after: None, limit: 1_000 };
        let mut there: BTreeMap<Key, (Revision, Record)> = now(store.scan(all))
            .unwrap()
            .into_iter()
            .map(|(key, found)| (key, (found.revision, Record::clone(&found.record.unwrap()))))
            .collect();
        for tried in std::mem::take(&mut self.unknown) {
            let found = there.get(&tried.key);
            let landed = match found {
                Some((_, record)) => !tried.forget && record.nonce.0 == tried.nonce,
                None => tried.forget,
            };
            if !landed {
                seen.lost += 1;
                continue;
            }
            seen.landed += 1;
            match found {
                Some((revision, _)) => {
                    assert!(*revision > self.highest, "{tried:?} at {revision:?}");
                    self.current.insert(tried.key.clone(), (*revision, tried));
                }
                None => drop(self.current.remove(&tried.key)),
            }
        }
        for (key, (revision, tried)) in &self.current {
            let found = there.remove(key);
            let (at, record) = found.unwrap_or_else(|| panic!("{tried:?} at {revision:?} is gone"));
            assert_eq!(at, *revision, "{tried:?}, and there is {record:?}");
            assert_eq!(record, Self::record(tried));
        }
        assert!(there.is_empty(), "these were never written: {there:?}");
        self.check_census(store);
        let last = self.changes.last().map_or(Revision::ABSENT, |(revision, ..)| *revision);
        let current = self.current.values().map(|(revision, _)| *revision);
        self.highest = current.fold(self.highest.max(last), Revision::max);
    }
}
