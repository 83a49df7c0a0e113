//! Finds every key's actor. No other part keeps an actor's address.

use std::{
    hash::{BuildHasher, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use actix::{Actor, Addr};
use dashmap::mapref::entry::Entry;

use super::{arbiters::Arbiters, exit_notice::ExitNotice};
use crate::{
    actor::{lease::actor::LeaseActor, mail::Mail, world::World},
    clock::{DashMap, dash_map},
    lease::{Key, Moment},
};

/// Why no actor accepted the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The key's actor died too often lately. The key rests until this moment.
    Resting(Moment),
    /// The arbiters do not run yet, or no longer.
    NoArbiter,
}

pub(in crate::actor) enum Slot {
    /// An actor answers, or has just died and will be replaced.
    Running { addr: Addr<LeaseActor>, incarnation: u64 },
    /// No actor answers until this moment.
    Resting { until: Moment },
}

/// The registry.
pub struct Registry {
    slots: DashMap<Key, Slot>,
    /// Keys that an earlier process left held, and whose records were not read since. The promises for such a key end
    /// with the grace that began when the store's lock was taken.
    unseen: DashMap<Key, ()>,
    arbiters: Arc<Arbiters>,
    incarnations: AtomicU64,
}

impl Registry {
    /// An empty registry that places actors on these arbiters.
    #[must_use]
    pub fn new(arbiters: Arc<Arbiters>) -> Self {
        Self { slots: dash_map(), unseen: dash_map(), arbiters, incarnations: AtomicU64::new(0) }
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
    pub fn post(&self, world: &Arc<World>, key: &str, mail: Mail) -> Result<(), Unreachable> {
        if let Some(slot) = self.slots.get(key)
            && let Slot::Running { addr, .. } = &*slot
        {
            addr.do_send(mail);
            return Ok(());
        }
        let Ok(key) = Key::stored(key) else { return Err(Unreachable::NoArbiter) };
        self.start(world, &key)?.do_send(mail);
        Ok(())
    }

    /// Puts mail into the mailboxes of many keys' actors, and starts missing actors. Wakes each thread once.
    pub(in crate::actor) fn post_all(
        world: &Arc<World>,
        keys: &[Key],
        mail: impl Fn() -> Mail + Clone + Send + 'static,
    ) {
        let registry = &world.registry;
        let mut by_arbiter = vec![Vec::new(); registry.arbiters.count().max(1)];
        for key in keys {
            by_arbiter[registry.arbiters.index(registry.hash(key))].push(key.clone());
        }
        for (index, keys) in by_arbiter.into_iter().enumerate().filter(|(_, keys)| !keys.is_empty())
        {
            let (world, mail) = (world.clone(), mail.clone());
            registry.arbiters.run(index, move || {
                for key in keys {
                    let _ = world.registry.post(&world, key.as_str(), mail());
                }
            });
        }
    }

    fn hash(&self, key: &Key) -> u64 {
        let mut hasher = self.slots.hasher().build_hasher();
        hasher.write(key.as_str().as_bytes());
        hasher.finish()
    }

    /// The number of arbiters, or 0 if actors live in the `LocalSet` of the task that asks for them.
    pub(in crate::actor) fn threads(&self) -> usize {
        self.arbiters.count()
    }

    /// Puts mail into the mailbox of the key's actor, if there is one.
    pub(in crate::actor) fn tell(&self, key: &str, mail: impl FnOnce() -> Mail) {
        if let Some(slot) = self.slots.get(key)
            && let Slot::Running { addr, .. } = &*slot
        {
            addr.do_send(mail());
        }
    }

    /// Puts mail into every actor's mailbox.
    pub fn tell_all(&self, mail: impl Fn() -> Mail) {
        for slot in &self.slots {
            if let Slot::Running { addr, .. } = slot.value() {
                addr.do_send(mail());
            }
        }
    }

    /// The actor of the key. Starts it if there is none.
    pub(in crate::actor) fn start(
        &self,
        world: &Arc<World>,
        key: &Key,
    ) -> Result<Addr<LeaseActor>, Unreachable> {
        let mut entry = match self.slots.entry(key.clone()) {
            Entry::Vacant(entry) => {
                let (addr, slot) = self.spawn(world, key)?;
                entry.insert(slot);
                return Ok(addr);
            }
            Entry::Occupied(entry) => entry,
        };
        match entry.get() {
            Slot::Running { addr, .. } => Ok(addr.clone()),
            Slot::Resting { until } if *until > world.clock.now() => {
                Err(Unreachable::Resting(*until))
            }
            Slot::Resting { .. } => {
                let (addr, slot) = self.spawn(world, key)?;
                entry.insert(slot);
                Ok(addr)
            }
        }
    }

    fn spawn(
        &self,
        world: &Arc<World>,
        key: &Key,
    ) -> Result<(Addr<LeaseActor>, Slot), Unreachable> {
        let incarnation = self.incarnations.fetch_add(1, Ordering::Relaxed);
        let restarted = !self.is_unseen(key.as_str());
        let exit_notice =
            ExitNotice::new(key.clone(), incarnation, world.clock.clone(), world.deaths.clone());
        let actor = LeaseActor::new(world.clone(), restarted, exit_notice);
        let mut actor = Some(actor);
        let cell = std::cell::RefCell::new(&mut actor);
        let addr = self.arbiters.place(
            self.hash(key),
            || cell.borrow_mut().take().map(Actor::start),
            |arbiter| {
                let actor = cell.borrow_mut().take()?;
                Some(LeaseActor::start_in_arbiter(arbiter, move |_| actor))
            },
        );
        match addr.flatten() {
            Some(addr) => {
                // Not earlier: a key that found no arbiter keeps the grace after the restart.
                self.unseen.remove(key);
                Ok((addr.clone(), Slot::Running { addr, incarnation }))
            }
            None => {
                if let Some(mut actor) = actor {
                    actor.silence();
                }
                Err(Unreachable::NoArbiter)
            }
        }
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

    /// Removes a retiring actor. A later lookup of the key starts another one.
    pub(in crate::actor) fn retire(&self, key: &Key, incarnation: u64) -> bool {
        self.slots.remove_if(key, |_, slot| Self::is(slot, incarnation)).is_some()
    }

    /// Makes the key of a dead actor rest.
    pub(in crate::actor) fn rest(&self, key: &Key, incarnation: u64, until: Moment) {
        if let Some(mut slot) = self.slots.get_mut(key)
            && Self::is(&slot, incarnation)
        {
            *slot = Slot::Resting { until };
        }
    }

    fn is(slot: &Slot, incarnation: u64) -> bool {
        matches!(slot, Slot::Running { incarnation: there, .. } if *there == incarnation)
    }
}
