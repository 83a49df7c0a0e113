//! The requests to hand over that await an answer.
//!
//! Does not guarantee: that a deadline survives a restart: it begins again in full.
//!
//! Bounded: at most one entry for each lease and each session with this home node.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    clock::HashMap,
    lease::{Handover, Key, Moment, Token},
};

/// The pending requests, for leases and sessions with this home node.
#[derive(Default)]
pub struct Handovers {
    standing: Mutex<Standing>,
    changed: Notify,
}

#[derive(Default)]
struct Standing {
    asked: HashMap<Key, Pending>,
    queue: BTreeSet<(Moment, Key)>,
}

#[derive(Clone)]
pub(super) struct Pending {
    /// The token of the tenure that must be handed over.
    pub token: Token,
    pub deadline: Moment,
    pub actor: Box<str>,
}

impl Standing {
    fn remove(&mut self, key: &Key, token: Token) -> Option<Pending> {
        if self.asked.get(key)?.token != token {
            return None;
        }
        let asked = self.asked.remove(key)?;
        self.queue.remove(&(asked.deadline, key.clone()));
        Some(asked)
    }
}

impl Handovers {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the deadline of a request, unless it has already started.
    pub(super) fn begin(&self, key: &Key, token: Token, ask: &Handover, now: Moment) {
        let deadline = now + Duration::from_millis(ask.span_ms);
        self.add(key, Pending { token, deadline, actor: ask.actor.clone() });
    }

    /// Adds a request, unless one for this tenure or for a later one is pending.
    pub(super) fn add(&self, key: &Key, asked: Pending) {
        let mut standing = self.standing();
        match standing.asked.get(key).cloned() {
            Some(before) if before.token >= asked.token => return,
            Some(before) => drop(standing.remove(key, before.token)),
            None => {}
        }
        standing.queue.insert((asked.deadline, key.clone()));
        standing.asked.insert(key.clone(), asked);
        self.changed.notify_one();
    }

    /// The tenure is over. Returns whether it had been asked to hand over.
    pub(super) fn end(&self, key: &Key, token: Token) -> bool {
        self.standing().remove(key, token).is_some()
    }

    /// When a key's holder is revoked.
    fn deadline(&self, key: &Key) -> Option<Moment> {
        self.standing().asked.get(key).map(|asked| asked.deadline)
    }

    /// The time left until then, in milliseconds.
    pub fn left_ms(&self, key: &Key, now: Moment) -> Option<u64> {
        let left = self.deadline(key)?.since(now).as_millis();
        Some(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Takes the requests whose deadline has passed.
    pub(super) fn take_due(&self, now: Moment) -> Vec<(Key, Pending)> {
        let mut standing = self.standing();
        let mut due = Vec::new();
        while let Some((at, key)) = standing.queue.first().cloned()
            && at <= now
        {
            standing.queue.pop_first();
            due.extend(standing.asked.remove(&key).map(|asked| (key, asked)));
        }
        due
    }

    /// The earliest deadline of a hand-over.
    pub(super) fn next(&self) -> Option<Moment> {
        self.standing().queue.first().map(|(at, _)| *at)
    }

    /// Resolves when a request was added.
    pub(super) async fn added(&self) {
        self.changed.notified().await;
    }
}
