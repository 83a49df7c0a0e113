//! Removes the records of forgotten keys.
//!
//! Guarantees: a record is removed only if it is unchanged since the key was forgotten, so a caller that is granted the
//! key meanwhile keeps it. The record stays for as long as a copy of an earlier write might land.
//!
//! Does not guarantee: that the records are removed if this process ends before. The keys can then be forgotten again.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    actor::{
        environment::Environment,
        runtime::{inbox::Inbox, tasks::supervise},
    },
    clock::HashMap,
    lease::{Key, KeyState, Moment, Record},
    store::{StoreError, retention},
};

/// Keys that this node forgot, until their records are removed.
pub struct Forgotten {
    environment: Arc<Environment>,
    waiting: Inbox<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The time at which each key is due, in ascending order, and the `seq` of the change that forgot it.
    due: VecDeque<(Moment, Key, u64)>,
    /// The `seq` of the latest such change of each key.
    latest: HashMap<Key, u64>,
}

impl Waiting {
    fn add(&mut self, key: &Key, seq: u64, due: Moment) {
        self.latest.insert(key.clone(), seq);
        self.due.push_back((due, key.clone(), seq));
    }

    /// Has the removal tried again, unless the key was forgotten once more meanwhile.
    fn retry(&mut self, key: &Key, seq: u64, due: Moment) {
        if !self.latest.contains_key(key) {
            self.add(key, seq, due);
        }
    }

    /// Takes the first key, with its `seq`. `None` if the key was forgotten once more since.
    fn take(&mut self) -> Option<(Key, u64)> {
        let (_, key, seq) = self.due.pop_front()?;
        if self.latest.get(&key) != Some(&seq) {
            return None;
        }
        self.latest.remove(&key);
        Some((key, seq))
    }
}

impl Forgotten {
    pub(in crate::actor) fn new(environment: Arc<Environment>) -> Self {
        Self { environment, waiting: Inbox::default() }
    }

    /// The key's change `seq` forgot it.
    pub(crate) fn add(&self, key: &Key, seq: u64, now: Moment) {
        self.waiting.add(|waiting| waiting.add(key, seq, now + retention()));
    }

    /// Whether the key's latest change `seq` forgot it.
    pub(crate) fn has(&self, key: &Key, seq: u64) -> bool {
        self.waiting.look(|waiting| waiting.latest.get(key) == Some(&seq))
    }

    /// When the next key is due.
    fn next(&self) -> Option<Moment> {
        self.waiting.look(|waiting| waiting.due.front().map(|(due, ..)| *due))
    }

    /// Starts the task that removes the records. It runs for as long as the process.
    pub(crate) fn start(self: &Arc<Self>) {
        supervise(self, "forgotten keys", |forgotten| async move { forgotten.remove_all().await });
    }

    async fn remove_all(&self) {
        let clock = &self.environment.clock;
        loop {
            let Some(due) = self.next() else {
                self.waiting.filled().await;
                continue;
            };
            tokio::time::sleep(due.since(clock.now())).await;
            if let Some((key, seq)) = self.waiting.look(Waiting::take)
                && let Err(error) = self.remove(&key, seq).await
            {
                tracing::warn!(%key, %error, "cannot remove the record of a forgotten key; retrying");
                let due = clock.now() + retention();
                self.waiting.add(|waiting| waiting.retry(&key, seq, due));
            }
        }
    }

    /// Removes the key's record if that change was its last.
    async fn remove(&self, key: &Key, seq: u64) -> Result<(), StoreError> {
        let store = &self.environment.store;
        let Some(found) = store.read(key).await? else { return Ok(()) };
        let untouched = |record: &Arc<Record>| record.state == KeyState::Free && record.seq == seq;
        if found.record.as_ref().is_ok_and(untouched) {
            store.forget(key, found.revision).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_that_is_tried_again_gives_way_to_a_newer_one() {
        let key = Key::new("k").expect("a key");
        let due = Moment::ZERO;
        let mut waiting = Waiting::default();
        waiting.add(&key, 4, due);
        assert_eq!(waiting.take(), Some((key.clone(), 4)));
        waiting.add(&key, 7, due);
        waiting.retry(&key, 4, due);
        assert_eq!(waiting.take(), Some((key.clone(), 7)));
        assert_eq!(waiting.take(), None);
        waiting.retry(&key, 7, due);
        assert_eq!(waiting.take(), Some((key, 7)));
    }
}
