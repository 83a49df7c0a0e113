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

use super::{World, tasks::supervise};
use crate::{
    clock::HashMap,
    lease::{Key, Moment, Record, State},
    store::{StoreError, burial},
};

/// Keys that were forgotten here, until their records are removed.
#[derive(Default)]
pub struct Forgotten {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    /// When each is due, the first first, and the number of the change that forgot it.
    due: VecDeque<(Moment, Key, u64)>,
    /// The number of the latest such change of each.
    latest: HashMap<Key, u64>,
}

impl Forgotten {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key's change of this number said that it is forgotten.
    pub(crate) fn add(&self, key: &Key, seq: u64, now: Moment) {
        let mut waiting = self.waiting();
        waiting.latest.insert(key.clone(), seq);
        waiting.due.push_back((now + burial(), key.clone(), seq));
        self.added.notify_one();
    }

    /// Whether the key's latest change, of this number, forgot it.
    pub(crate) fn has(&self, key: &Key, seq: u64) -> bool {
        self.waiting().latest.get(key) == Some(&seq)
    }

    /// When the next one is due.
    fn next(&self) -> Option<Moment> {
        self.waiting().due.front().map(|(due, ..)| *due)
    }

    /// Takes the first, with its number; `None` where the key was forgotten once more since.
    fn take(&self) -> Option<(Key, u64)> {
        let mut waiting = self.waiting();
        let (_, key, seq) = waiting.due.pop_front()?;
        if waiting.latest.get(&key) != Some(&seq) {
            return None;
        }
        waiting.latest.remove(&key);
        Some((key, seq))
    }
}

/// Goes on for as long as the process does.
pub(crate) fn start(world: &Arc<World>) {
    supervise(world, "forgotten", |world| async move {
        loop {
            let Some(due) = world.forgotten.next() else {
                world.forgotten.added.notified().await;
                continue;
            };
            tokio::time::sleep(due.since(world.clock.now())).await;
            if let Some((key, seq)) = world.forgotten.take()
                && let Err(error) = remove(&world, &key, seq).await
            {
                tracing::warn!(%key, %error, "the record of a forgotten key stays for now");
                world.forgotten.add(&key, seq, world.clock.now());
            }
        }
    });
}

/// Removes the key's record, if it is as that change left it.
async fn remove(world: &World, key: &Key, seq: u64) -> Result<(), StoreError> {
    let Some(found) = world.store.read(key).await? else { return Ok(()) };
    let untouched = |record: &Arc<Record>| record.state == State::Free && record.seq == seq;
    if found.record.as_ref().is_ok_and(untouched) {
        world.store.forget(key, found.revision).await?;
    }
    Ok(())
}
