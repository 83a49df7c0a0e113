//! What every actor shares.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

use super::{Bus, Registry, obituary::Death};
use crate::{
    clock::{Clock, Entropy, JumpDetector},
    lease::{Env, Inherited, Key, Lease, Moment, Terms, View},
    store::{Found, LeaseStore},
    telemetry::{Metrics, OwnershipLog},
};

/// Bounds of the actors.
#[derive(Clone, Debug)]
pub struct Limits {
    /// An idle, free key's actor leaves memory after this.
    pub passivate_after: Duration,
    /// How often one key's actor may be started anew…
    pub restart_intensity: usize,
    /// …within this.
    pub restart_window: Duration,
    /// Subscribers of the bus.
    pub subscribers: usize,
    /// Changes that the bus keeps for slow subscribers.
    pub bus_buffer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            passivate_after: Duration::from_secs(30),
            restart_intensity: 10,
            restart_window: Duration::from_secs(10),
            subscribers: 2048,
            bus_buffer: 16_384,
        }
    }
}

/// Everything that an actor needs from outside.
pub struct World {
    /// The store.
    pub store: Arc<dyn LeaseStore>,
    /// The clock of every promise.
    pub clock: Arc<dyn Clock>,
    /// Where nonces come from.
    pub entropy: Arc<dyn Entropy>,
    /// What is the same for every key.
    pub terms: Terms,
    /// Bounds.
    pub limits: Limits,
    /// Where every key's actor is found.
    pub registry: Registry,
    /// Where changes are published.
    pub bus: Bus,
    /// Handles to the metrics.
    pub metrics: Arc<Metrics>,
    /// The log of ownership changes.
    pub ownership_log: OwnershipLog,
    /// When the store's lock was taken: no earlier process can have promised anything after it.
    pub locked_at: Moment,
    pub(super) deaths: UnboundedSender<Death>,
    /// Seeds each key's own chance.
    pub(super) seed: u64,
    jumps: JumpDetector,
    lapses: AtomicU32,
}

impl World {
    /// Puts a world together.
    #[expect(clippy::too_many_arguments, reason = "every input of the actors is named here, once")]
    pub fn new(
        store: Arc<dyn LeaseStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        terms: Terms,
        limits: Limits,
        registry: Registry,
        metrics: Arc<Metrics>,
        ownership_log: OwnershipLog,
        deaths: UnboundedSender<Death>,
        locked_at: Moment,
    ) -> Self {
        let bus = Bus::new(limits.bus_buffer, limits.subscribers);
        let seed = entropy.next_u64();
        Self {
            store,
            clock,
            entropy,
            terms,
            limits,
            registry,
            bus,
            metrics,
            ownership_log,
            locked_at,
            deaths,
            seed,
            jumps: JumpDetector::new(),
            lapses: AtomicU32::new(0),
        }
    }

    /// One reading of the clock, for one decision. It is vouched for: where the clock turns out to have
    /// stood still without knowing, every promise made so far is void, and each lease reckons with one
    /// ttl more.
    pub fn now(&self) -> Moment {
        self.reading().0
    }

    /// [`Self::now`], with the wall clock that vouched for it.
    pub(super) fn reading(&self) -> (Moment, u64) {
        let now = self.clock.now();
        let wall_ms = self.clock.wall_ms();
        let Some(gain) = self.jumps.check_reading(&*self.clock, now, wall_ms) else {
            return (now, wall_ms);
        };
        self.entropy.refresh();
        self.lapses.fetch_add(1, Ordering::AcqRel);
        self.metrics.clock_jumps.increment(1);
        let gain_ms = gain.as_millis();
        tracing::warn!(gain_ms, "the clock had stood still: earlier promises are void");
        (self.clock.now(), wall_ms)
    }

    /// How often the clock was found to have stood still.
    pub fn lapses(&self) -> u32 {
        self.lapses.load(Ordering::Acquire)
    }

    /// The view of a key without an actor: what the record says, and the grace of a restart.
    pub fn view_of(&self, key: &Key, found: Option<Found>) -> View {
        let now = self.clock.now();
        let inherited = if self.registry.is_unseen(key.as_str()) {
            Inherited::FromProcess(self.locked_at)
        } else {
            Inherited::FromActor(now)
        };
        let (lease, _) = self.with_env(key, (now, 0), |env| {
            Lease::<super::Reply>::recover(super::lease::loaded(found), inherited, env)
        });
        lease.view(now)
    }

    pub(super) fn with_env<T>(
        &self,
        key: &Key,
        (now, wall_ms): (Moment, u64),
        body: impl FnOnce(&mut Env<'_>) -> T,
    ) -> T {
        let mut nonces = || self.entropy.nonce();
        body(&mut Env { now, wall_ms, key, terms: &self.terms, nonces: &mut nonces })
    }
}
