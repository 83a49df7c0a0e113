//! An index of the leases that each session keeps, for all sessions of the store, built from the store's history.
//!
//! Guarantees: a lease is in the index from when its grant was reported until its end was. After missed changes, all
//! records are read again before any caller gets an answer.
//!
//! Does not guarantee: that a lease in the index is still kept. A caller must read the record before it acts.

use crate::{
    actor::runtime::watch,
    clock::{DashMap, HashMap, dash_map},
    lease::{Key, Nonce},
    store::Tie,
};

pub struct SessionLeases {
    /// With the `seq` of the change after which the session kept the lease.
    kept: DashMap<Nonce, HashMap<Key, u64>>,
    /// How often changes were missed; the start of the process counts as once. `read` has the value of this counter up
    /// to which all records were read.
    missed: watch::Sender<u64>,
    read: watch::Sender<u64>,
}

impl Default for SessionLeases {
    fn default() -> Self {
        Self { kept: dash_map(), missed: watch::Sender::new(1), read: watch::Sender::new(0) }
    }
}

impl SessionLeases {
    /// Handles a change of a lease from the feed, or a record that was read.
    pub fn heard(&self, tie: Option<Tie>) {
        let Some(Tie { key, session, seq, kept }) = tie else { return };
        if !kept {
            return self.ended(session, &key, seq);
        }
        let mut kept = self.kept.entry(session).or_default();
        let known = kept.entry(key).or_default();
        *known = seq.max(*known);
    }

    /// The session does not keep the lease after the key's change `seq`.
    pub fn ended(&self, session: Nonce, key: &Key, seq: u64) {
        if let Some(mut kept) = self.kept.get_mut(&session)
            && kept.get(key).is_some_and(|granted| *granted <= seq)
        {
            kept.remove(key);
        }
        self.kept.remove_if(&session, |_, kept| kept.is_empty());
    }

    /// Whether a session keeps this lease.
    pub fn keeps(&self, session: Nonce, key: &Key) -> bool {
        self.kept.get(&session).is_some_and(|kept| kept.contains_key(key))
    }

    /// The leases that a session keeps.
    pub fn of(&self, session: Nonce) -> Vec<Key> {
        self.kept.get(&session).map(|kept| kept.keys().cloned().collect()).unwrap_or_default()
    }

    /// Changes were missed: all records must be read again.
    pub fn missed(&self) {
        self.missed.send_modify(|times| *times += 1);
    }

    /// How often changes were missed.
    pub fn misses(&self) -> u64 {
        self.missed.get()
    }

    /// Resolves when the index is incomplete.
    pub async fn incomplete(&self) {
        let read = self.read.get();
        let _ = self.missed.subscribe().wait_for(|missed| *missed != read).await;
    }

    /// Whether the index is complete.
    pub fn are_whole(&self) -> bool {
        self.whole_since().is_some()
    }

    /// How often changes had been missed when all records were last read, or `None` if the index is incomplete.
    pub fn whole_since(&self) -> Option<u64> {
        let read = self.read.get();
        (self.missed.get() == read).then_some(read)
    }

    /// Resolves when the index is complete.
    pub async fn whole(&self) {
        let mut read = self.read.subscribe();
        while !self.are_whole() {
            let before = self.read.get();
            let _ = read.wait_for(|read| *read != before).await;
        }
    }

    /// All records are read from now on. Returns how often changes had been missed.
    pub fn begin(&self) -> u64 {
        let missed = self.misses();
        self.kept.clear();
        missed
    }

    /// All records were read since the counter of missed changes had this value.
    pub fn complete(&self, missed: u64) {
        self.read.send_replace(missed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tie(kept: bool, seq: u64) -> Option<Tie> {
        Some(Tie { key: Key::new("k").expect("a key"), session: Nonce(7), seq, kept })
    }

    #[test]
    fn an_end_that_is_older_than_the_grant_does_not_take_the_lease_away() {
        let index = SessionLeases::default();
        index.heard(tie(true, 3));
        index.heard(tie(false, 2));
        assert_eq!(index.of(Nonce(7)).len(), 1);
        index.heard(tie(false, 4));
        assert!(index.of(Nonce(7)).is_empty() && index.kept.is_empty());
    }

    #[tokio::test]
    async fn nobody_is_told_before_what_was_missed_is_read() {
        let index = SessionLeases::default();
        assert!(!index.are_whole());
        index.complete(1);
        index.whole().await;
        index.missed();
        index.complete(1);
        let waits = tokio::time::timeout(Duration::from_millis(20), index.whole()).await;
        assert!(waits.is_err());
        index.complete(2);
        index.whole().await;
    }
}
