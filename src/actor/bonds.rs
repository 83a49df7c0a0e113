//! Which leases each session keeps, of all sessions of the store, as its history tells.
//!
//! Guarantees: a lease is named from when its grant was heard of until its end was; after changes were missed, all is
//! read anew before anybody is told.
//!
//! Does not guarantee: that a lease which is named is kept yet. Whoever acts on it reads the record.

use std::{sync::Arc, time::Duration};

use super::{World, sweep::look, tasks::supervise, watch};
use crate::{
    clock::{DashMap, HashMap, dash_map},
    lease::{Key, Mutant, Nonce, Record},
    store::{StoreError, Tie},
};

/// After this all is read again, when that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Leases by session.
pub(super) struct Bonds {
    /// With the `seq` of the change after which the lease was kept.
    kept: DashMap<Nonce, HashMap<Key, u64>>,
    /// How often changes were missed, with the start of the process; and which of these times all was read after.
    missed: watch::Sender<u64>,
    read: watch::Sender<u64>,
}

impl Default for Bonds {
    fn default() -> Self {
        Self { kept: dash_map(), missed: watch::Sender::new(1), read: watch::Sender::new(0) }
    }
}

impl Bonds {
    /// The feed brought a change of a lease, or a record was read.
    pub fn heard(&self, tie: Option<Tie>) {
        let Some(Tie { key, session, seq, kept }) = tie else { return };
        if !kept {
            return self.ended(session, &key, seq);
        }
        let mut kept = self.kept.entry(session).or_default();
        let known = kept.entry(key).or_default();
        *known = seq.max(*known);
    }

    /// This session does not keep the lease after the key's change `seq`.
    pub fn ended(&self, session: Nonce, key: &Key, seq: u64) {
        if let Some(mut kept) = self.kept.get_mut(&session)
            && kept.get(key).is_some_and(|granted| *granted <= seq)
        {
            kept.remove(key);
        }
        self.kept.remove_if(&session, |_, kept| kept.is_empty());
    }

    /// The leases that a session keeps.
    pub fn of(&self, session: Nonce) -> Vec<Key> {
        self.kept.get(&session).map(|kept| kept.keys().cloned().collect()).unwrap_or_default()
    }

    /// Changes were missed: all is to be read anew.
    pub fn missed(&self) {
        self.missed.send_modify(|times| *times += 1);
    }

    /// Whether nothing is missing.
    pub fn are_whole(&self) -> bool {
        self.whole_since().is_some()
    }

    /// How often changes had been missed when all was read last; `None`: something is missing.
    pub fn whole_since(&self) -> Option<u64> {
        let read = self.read.get();
        (self.missed.get() == read).then_some(read)
    }

    /// Resolves when nothing is missing.
    pub async fn whole(&self) {
        let mut read = self.read.subscribe();
        while !self.are_whole() {
            let before = self.read.get();
            let _ = read.wait_for(|read| *read != before).await;
        }
    }

    /// All that was missed until it had been missed so often was read.
    pub fn complete(&self, missed: u64) {
        self.read.send_replace(missed);
    }
}

/// Reads all again whenever changes were missed, for as long as the process does.
pub(super) fn start(world: &Arc<World>) {
    supervise(world, "leases by session", |world| async move {
        let mut missed = world.sessions.bonds.missed.subscribe();
        loop {
            if world.sessions.bonds.are_whole() {
                let read = world.sessions.bonds.read.get();
                let _ = missed.wait_for(|missed| *missed != read).await;
            }
            if world.breaks(Mutant::BondsNotReadAnew) {
                world.sessions.bonds.complete(world.sessions.bonds.missed.get());
            } else if let Err(error) = read_all(&world, |_, _| {}).await {
                tracing::warn!(%error, "the leases of sessions cannot be looked for");
                tokio::time::sleep(RETRY).await;
            }
        }
    });
}

/// Reads every record once, where the store did not, and shows each to the caller; `None`: it cannot be judged.
///
/// # Errors
/// The store's.
pub(crate) async fn read_all(
    world: &World,
    mut each: impl FnMut(&Key, Option<&Record>),
) -> Result<(), StoreError> {
    let bonds = &world.sessions.bonds;
    let missed = bonds.missed.get();
    bonds.kept.clear();
    match world.store.take_ties() {
        Some(ties) => ties.into_iter().for_each(|tie| bonds.heard(Some(tie))),
        None => {
            look(world, |key, record| {
                bonds.heard(record.and_then(|record| Tie::of_record(key, record)));
                each(key, record);
            })
            .await?;
        }
    }
    bonds.complete(missed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tie(kept: bool, seq: u64) -> Option<Tie> {
        Some(Tie { key: Key::new("k").expect("a key"), session: Nonce(7), seq, kept })
    }

    #[test]
    fn an_end_that_is_older_than_the_grant_does_not_take_the_lease_away() {
        let bonds = Bonds::default();
        bonds.heard(tie(true, 3));
        bonds.heard(tie(false, 2));
        assert_eq!(bonds.of(Nonce(7)).len(), 1);
        bonds.heard(tie(false, 4));
        assert!(bonds.of(Nonce(7)).is_empty() && bonds.kept.is_empty());
    }

    #[tokio::test]
    async fn nobody_is_told_before_what_was_missed_is_read() {
        let bonds = Bonds::default();
        assert!(!bonds.are_whole());
        bonds.complete(1);
        bonds.whole().await;
        bonds.missed();
        bonds.complete(1);
        let waits = tokio::time::timeout(Duration::from_millis(20), bonds.whole()).await;
        assert!(waits.is_err());
        bonds.complete(2);
        bonds.whole().await;
    }
}
