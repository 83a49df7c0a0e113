//! Finds every key's actor. No other part keeps an actor's address.

use std::{
    any::Any,
    hash::{BuildHasher, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use actix::Recipient;
use dashmap::mapref::entry::Entry;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    arbiters::{Arbiters, Seat},
    cells::Cells,
    exit_notice::{Death, ExitNotice},
    inbox::Inbox,
};
use crate::{
    actor::mail::Mail,
    clock::{Clock, DashMap, dash_map},
    lease::{GiveBack, Key, Moment},
};

/// Why no actor accepted the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The key's actor died too often lately. The key rests until this moment.
    Resting(Moment),
    /// The arbiters do not run yet, or no longer.
    NoArbiter,
}

/// Starts an actor. `None` if the coordinator is gone.
pub type StartActor = Box<dyn Fn(Birth<'_>) -> Option<Recipient<Mail>> + Send + Sync>;

/// With what an actor is started.
pub struct Birth<'a> {
    /// Names the key. Must be the actor's last field.
    pub(in crate::actor) exit_notice: ExitNotice,
    /// An earlier actor of this process may have made promises for the key.
    pub(in crate::actor) restarted: bool,
    pub(in crate::actor) seat: Seat<'a>,
}

enum Slot {
    /// An actor answers, or has just died and will be replaced.
    Running { actor: Recipient<Mail>, incarnation: u64 },
    /// No actor answers until this moment.
    Resting { until: Moment },
}

impl Slot {
    fn is(&self, incarnation: u64) -> bool {
        matches!(self, Self::Running { incarnation: there, .. } if *there == incarnation)
    }
}

/// Something that is dropped once a grant is released.
pub type Until = Arc<dyn Any + Send + Sync>;

/// A grant that must be released.
pub(in crate::actor) struct Unwanted {
    pub key: Key,
    pub back: GiveBack,
    pub until: Option<Until>,
}

pub struct Registry {
    slots: DashMap<Key, Slot>,
    /// Keys that an earlier process left held, and whose records were not read since. The promises for such a key end
    /// with the grace that began when the store's lock was taken.
    unseen: DashMap<Key, ()>,
    /// Keys whose actor died, or began anew, and may have left a write: it may land after the store was read again. The next
    /// write that is durable keeps it from landing.
    unsettled: DashMap<Key, ()>,
    /// Where heartbeats that change nothing are answered, without the key's actor.
    pub cells: Cells,
    arbiters: Arc<Arbiters>,
    incarnations: AtomicU64,
    pub(super) clock: Arc<dyn Clock>,
    /// Grants whose callers left before they took the answer.
    pub(in crate::actor) unheard: Inbox<Vec<Unwanted>>,
    /// For tests: how many calls were posted to actors.
    #[cfg(any(test, feature = "testing"))]
    pub asked: AtomicU64,
    deaths: UnboundedSender<Death>,
    start_actor: StartActor,
}

impl Registry {
    /// An empty registry that starts actors on these arbiters, and has their deaths reported.
    #[must_use]
    pub fn new(
        arbiters: Arc<Arbiters>,
        clock: Arc<dyn Clock>,
        deaths: UnboundedSender<Death>,
        start_actor: StartActor,
    ) -> Self {
        let (slots, incarnations) = (dash_map(), AtomicU64::new(0));
        let (unseen, unsettled) = (dash_map(), dash_map());
        let (unheard, cells) = (Inbox::default(), Cells::default());
        Self {
            slots,
            unseen,
            unsettled,
            cells,
            arbiters,
            incarnations,
            clock,
            unheard,
            #[cfg(any(test, feature = "testing"))]
            asked: AtomicU64::new(0),
            deaths,
            start_actor,
        }
    }

    /// The number of arbiters, or 0 if actors live in the `LocalSet` of the task that asks for them.
    pub(in crate::actor) fn threads(&self) -> usize {
        self.arbiters.count()
    }

    /// Resolves when every arbiter has come to what it was asked to do before.
    pub(in crate::actor) async fn caught_up(&self) {
        self.arbiters.caught_up().await;
    }

    /// How many keys have an actor in memory.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no key has an actor in memory.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Remembers that an earlier process left this key held.
    pub(in crate::actor) fn inherit(&self, key: Key) {
        self.unseen.insert(key, ());
    }

    /// Puts mail into the mailbox of the key's actor. Starts the actor if there is none.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub fn post(&self, key: &str, mail: Mail) -> Result<(), Unreachable> {
        if let Some(slot) = self.slots.get(key)
            && let Slot::Running { actor, .. } = &*slot
        {
            actor.do_send(mail);
            return Ok(());
        }
        let Ok(key) = Key::stored(key) else { return Err(Unreachable::NoArbiter) };
        self.running(&key)?.do_send(mail);
        Ok(())
    }

    /// Puts mail into the mailboxes of many keys' actors, and starts missing actors. Wakes each thread once.
    pub(in crate::actor) fn post_all(
        self: &Arc<Self>,
        keys: &[Key],
        mail: impl Fn() -> Mail + Clone + Send + 'static,
    ) {
        let mut by_arbiter = vec![Vec::new(); self.arbiters.count().max(1)];
        for key in keys {
            by_arbiter[self.arbiters.index(self.hash(key))].push(key.clone());
        }
        for (index, keys) in by_arbiter.into_iter().enumerate().filter(|(_, keys)| !keys.is_empty())
        {
            let (registry, mail) = (self.clone(), mail.clone());
            self.arbiters.run(index, move || {
                for key in keys {
                    let _ = registry.post(key.as_str(), mail());
                }
            });
        }
    }

    fn hash(&self, key: &Key) -> u64 {
        let mut hasher = self.slots.hasher().build_hasher();
        hasher.write(key.as_str().as_bytes());
        hasher.finish()
    }

    /// Puts mail into the mailbox of the key's actor, if there is one.
    pub(in crate::actor) fn tell(&self, key: &str, mail: impl FnOnce() -> Mail) {
        if let Some(slot) = self.slots.get(key)
            && let Slot::Running { actor, .. } = &*slot
        {
            actor.do_send(mail());
        }
    }

    /// Puts mail into every actor's mailbox.
    pub fn tell_all(&self, mail: impl Fn() -> Mail) {
        for slot in &self.slots {
            if let Slot::Running { actor, .. } = slot.value() {
                actor.do_send(mail());
            }
        }
    }

    /// Starts the actor of the key, if there is none.
    pub(in crate::actor) fn start(&self, key: &Key) -> Result<(), Unreachable> {
        self.running(key).map(drop)
    }

    /// The actor of the key. Starts it if there is none.
    fn running(&self, key: &Key) -> Result<Recipient<Mail>, Unreachable> {
        let mut entry = match self.slots.entry(key.clone()) {
            Entry::Vacant(entry) => {
                let (actor, slot) = self.spawn(key)?;
                entry.insert(slot);
                return Ok(actor);
            }
            Entry::Occupied(entry) => entry,
        };
        match entry.get() {
            Slot::Running { actor, .. } => Ok(actor.clone()),
            Slot::Resting { until } if *until > self.clock.now() => {
                Err(Unreachable::Resting(*until))
            }
            Slot::Resting { .. } => {
                let (actor, slot) = self.spawn(key)?;
                entry.insert(slot);
                Ok(actor)
            }
        }
    }

    fn spawn(&self, key: &Key) -> Result<(Recipient<Mail>, Slot), Unreachable> {
        let seat = self.arbiters.seat(self.hash(key)).ok_or(Unreachable::NoArbiter)?;
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        let restarted = !self.is_unseen(key.as_str());
        let exit_notice =
            ExitNotice::new(key.clone(), incarnation, self.clock.clone(), self.deaths.clone());
        let started = (self.start_actor)(Birth { exit_notice, restarted, seat });
        let actor = started.ok_or(Unreachable::NoArbiter)?;
        // Not earlier: a key that found no arbiter keeps the grace after the restart.
        self.unseen.remove(key);
        Ok((actor.clone(), Slot::Running { actor, incarnation }))
    }

    /// Whether there are arbiters on which actors can run.
    pub fn has_arbiters(&self) -> bool {
        self.arbiters.ready()
    }

    /// Whether the key has an actor in memory.
    pub fn contains(&self, key: &str) -> bool {
        self.slots.get(key).is_some_and(|slot| matches!(*slot, Slot::Running { .. }))
    }

    /// Frees the memory that the inherited keys took, once all of them were read.
    pub(in crate::actor) fn all_seen(&self) {
        self.unseen.shrink_to_fit();
    }

    /// Whether an earlier process left the key held, and its record was not read since.
    pub(in crate::actor) fn is_unseen(&self, key: &str) -> bool {
        self.unseen.contains_key(key)
    }

    /// An actor of the key may have left a write that lands later.
    pub(in crate::actor) fn unsettle(&self, key: &Key) {
        self.unsettled.insert(key.clone(), ());
    }

    /// No write that an earlier actor of the key left can land any more.
    pub(in crate::actor) fn settle(&self, key: &Key) {
        self.unsettled.remove(key);
    }

    /// Whether an earlier actor of the key may have left a write that lands later.
    pub(in crate::actor) fn is_unsettled(&self, key: &str) -> bool {
        self.unsettled.contains_key(key)
    }

    /// Removes a retiring actor. A later lookup of the key starts another one.
    pub(in crate::actor) fn retire(&self, key: &Key, incarnation: u64) -> bool {
        self.slots.remove_if(key, |_, slot| slot.is(incarnation)).is_some()
    }

    /// Makes the key of a dead actor rest.
    pub(in crate::actor) fn rest(&self, key: &Key, incarnation: u64, until: Moment) {
        if let Some(mut slot) = self.slots.get_mut(key)
            && slot.is(incarnation)
        {
            *slot = Slot::Resting { until };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix::{Actor, Handler};
    use tokio::{sync::mpsc, task::LocalSet};

    use super::*;
    use crate::clock::ManualClock;

    struct Listener {
        _exit_notice: ExitNotice,
    }

    impl Actor for Listener {
        type Context = actix::Context<Self>;
    }

    impl Handler<Mail> for Listener {
        type Result = ();

        fn handle(&mut self, _: Mail, _: &mut Self::Context) {}
    }

    fn registry(arbiters: Arbiters, clock: &Arc<ManualClock>) -> Registry {
        let (deaths, _) = mpsc::unbounded_channel();
        let start = |birth: Birth<'_>| {
            Some(Listener { _exit_notice: birth.exit_notice }.start().recipient())
        };
        Registry::new(Arc::new(arbiters), clock.clone(), deaths, Box::new(start))
    }

    fn key() -> Key {
        Key::new("k").expect("a key")
    }

    #[test]
    fn a_key_rests_until_its_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, async {
            let clock = Arc::new(ManualClock::new());
            let registry = registry(Arbiters::here(), &clock);
            assert_eq!(registry.start(&key()), Ok(()));
            let until = clock.now() + Duration::from_secs(10);
            registry.rest(&key(), 0, until);
            assert_eq!(registry.post("k", Mail::Nudge), Err(Unreachable::Resting(until)));
            assert!(!registry.contains("k"));
            clock.advance(Duration::from_secs(10));
            assert_eq!(registry.post("k", Mail::Nudge), Ok(()));
            assert!(!registry.retire(&key(), 0), "another actor runs");
            assert!(registry.retire(&key(), 1));
        });
    }

    #[test]
    fn a_key_that_finds_no_arbiter_stays_inherited() {
        let registry = registry(Arbiters::new(1), &Arc::new(ManualClock::new()));
        registry.inherit(key());
        assert_eq!(registry.start(&key()), Err(Unreachable::NoArbiter));
        assert!(registry.is_unseen("k") && registry.is_empty());
    }
}
