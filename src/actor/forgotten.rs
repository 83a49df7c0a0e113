//! Removes the records of keys that were forgotten.
//!
//! Guarantees: a record is removed only as it was when the key was forgotten: whoever is granted the key meanwhile
//! keeps it. It stays for as long as a copy of an earlier write might land.
//!
//! Does not guarantee: that the records go where this process ends before: forgetting the keys again is as good.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{World, reaper::burial, tasks::supervise};
use crate::{
    clock::HashMap,
    lease::{Key, Moment, Record, State},
};

/// Keys that were forgotten here, until their records are removed.
#[derive(Default)]
pub struct Forgotten {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    /// When each is due, the first first.
    due: VecDeque<(Moment, Key)>,
    /// The number of the change that forgot it.
    seqs: HashMap<Key, u64>,
}

impl Forgotten {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key's change of this number said that it is forgotten.
    pub(crate) fn add(&self, key: &Key, seq: u64, now: Moment) {
        let mut waiting = self.waiting();
        waiting.seqs.insert(key.clone(), seq);
        waiting.due.push_back((now + burial(), key.clone()));
        self.added.notify_one();
    }

    /// Whether the key's latest change, of this number, forgot it.
    pub(crate) fn has(&self, key: &Key, seq: u64) -> bool {
        self.waiting().seqs.get(key) == Some(&seq)
    }

    fn first(&self) -> Option<(Moment, Key)> {
        self.waiting().due.front().cloned()
    }

    /// Takes the first, with its number; one that was forgotten twice goes once, the first time.
    fn take(&self) -> Option<(Key, u64)> {
        let mut waiting = self.waiting();
        let (_, key) = waiting.due.pop_front()?;
        waiting.seqs.remove(&key).map(|seq| (key, seq))
    }
}

/// Goes on for as long as the process does.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "forgotten", |world| async move {
        loop {
            let Some((due, _)) = world.forgotten.first() else {
                world.forgotten.added.notified().await;
                continue;
            };
            tokio::time::sleep(due.since(world.clock.now())).await;
            if let Some((key, seq)) = world.forgotten.take() {
                remove(&world, &key, seq).await;
            }
        }
    });
}

async fn remove(world: &World, key: &Key, seq: u64) {
    let Ok(Some(found)) = world.store.read(key).await else { return };
    let untouched = |record: &Arc<Record>| record.state == State::Free && record.seq == seq;
    if found.record.as_ref().is_ok_and(untouched) {
        let gone = world.store.forget(key, found.revision).await;
        tracing::debug!(key = key.as_str(), ?gone, "a key was forgotten");
    }
}
