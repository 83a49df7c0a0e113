//! Removes the records of forgotten keys.
//!
//! Guarantees: a record is removed only if it is unchanged since the key was forgotten, so a caller that is granted the
//! key meanwhile keeps it. The record stays for as long as a copy of an earlier write might land.
//!
//! Does not guarantee: that the records are removed if this process ends before. The keys can then be forgotten again.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::{
    actor::{runtime::tasks::supervise, world::World},
    clock::HashMap,
    lease::{Key, Moment, Record, State},
    store::{StoreError, retention},
};

/// Keys that this node forgot, until their records are removed.
#[derive(Default)]
pub struct Forgotten {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Default)]
struct Waiting {
    /// The time at which each key is due, in ascending order, and the `seq` of the change that forgot it.
    due: VecDeque<(Moment, Key, u64)>,
    /// The `seq` of the latest such change of each key.
    latest: HashMap<Key, u64>,
}

impl Forgotten {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key's change `seq` forgot it.
    pub(crate) fn add(&self, key: &Key, seq: u64, now: Moment) {
        let mut waiting = self.waiting();
        waiting.latest.insert(key.clone(), seq);
        waiting.due.push_back((now + retention(), key.clone(), seq));
        self.added.notify_one();
    }

    /// Whether the key's latest change `seq` forgot it.
    pub(crate) fn has(&self, key: &Key, seq: u64) -> bool {
        self.waiting().latest.get(key) == Some(&seq)
    }

    /// When the next key is due.
    fn next(&self) -> Option<Moment> {
        self.waiting().due.front().map(|(due, ..)| *due)
    }

    /// Takes the first key, with its `seq`. `None` if the key was forgotten once more since.
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

/// Starts the task, which runs for as long as the process.
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
                tracing::warn!(%key, %error, "cannot remove the record of a forgotten key; retrying");
                world.forgotten.add(&key, seq, world.clock.now());
            }
        }
    });
}

/// Removes the key's record if that change was its last.
async fn remove(world: &World, key: &Key, seq: u64) -> Result<(), StoreError> {
    let Some(found) = world.store.read(key).await? else { return Ok(()) };
    let untouched = |record: &Arc<Record>| record.state == State::Free && record.seq == seq;
    if found.record.as_ref().is_ok_and(untouched) {
        world.store.forget(key, found.revision).await?;
    }
    Ok(())
}
