//! The actor of one key.

use std::sync::Arc;

use super::traces::Traces;
use crate::{
    actor::{
        coordinator::Coordinator,
        mail::{Reply, gate::Permit},
        runtime::exit_notice::ExitNotice,
        sessions::HealthChecks,
    },
    clock::Chance,
    lease::{Epoch, Key, Lease, Moment, PromiseCell, Token},
    telemetry::PoolMetrics,
};

pub struct LeaseActor {
    pub(super) coordinator: Arc<Coordinator>,
    /// `None` while the record is being read.
    pub(super) lease: Option<Box<Lease<Reply>>>,
    pub(super) chance: Chance,
    /// When the timer fires.
    pub(super) timer: Option<Moment>,
    /// When the key last changed hands. [`Moment::ZERO`] while that is not known.
    pub(super) since: Moment,
    /// Whether the key was held at that moment, and the token of its last tenure.
    pub(super) held: bool,
    pub(super) token: Token,
    /// The last tenure that was asked to hand over.
    pub(super) asked: Token,
    pub(super) lapses: u32,
    /// The epoch under which the lease was read.
    pub(super) epoch: Epoch,
    /// An earlier actor of this process may have made promises.
    pub(super) restarted: bool,
    /// The metrics of the key's pool, by the policies of this version.
    pub(super) pool: Arc<PoolMetrics>,
    pub(super) policies: u64,
    /// The promise cell that heartbeats find under the key.
    pub(super) shown: Option<Arc<PromiseCell>>,
    /// The lease is held, and this node is its home node.
    pub(super) homed: bool,
    /// Callers wait for the key although nobody holds it.
    pub(super) stuck: bool,
    pub(super) started: bool,
    /// How often the actor read the lease again from the start. Outcomes of writes of an earlier generation are
    /// dropped.
    pub(super) generation: u32,
    /// Kept while an end that is due is being written.
    pub(super) permit: Option<Permit>,
    /// What is known of traced calls; `None` before the first one.
    pub(super) traces: Option<Box<Traces>>,
    /// Runs the checks of a session.
    pub(super) health_checks: Option<Box<HealthChecks>>,
    /// Must be the last field: its drop reports the death of the actor.
    pub(super) exit_notice: ExitNotice,
}

impl LeaseActor {
    pub fn new(coordinator: Arc<Coordinator>, restarted: bool, exit_notice: ExitNotice) -> Self {
        let chance = Chance::of(coordinator.seed, exit_notice.key().as_str());
        let lapses = coordinator.lapses();
        let table = coordinator.policy_table();
        let (policies, pool) = (table.version(), table.of(exit_notice.key().as_str()).1.clone());
        drop(table);
        Self {
            coordinator,
            lease: None,
            chance,
            timer: None,
            since: Moment::ZERO,
            held: false,
            token: Token::default(),
            asked: Token::default(),
            lapses,
            epoch: Epoch::default(),
            restarted,
            pool,
            policies,
            shown: None,
            homed: false,
            stuck: false,
            started: false,
            generation: 0,
            permit: None,
            traces: None,
            health_checks: None,
            exit_notice,
        }
    }

    pub(super) fn key(&self) -> &Key {
        self.exit_notice.key()
    }

    /// What is known of the lease goes. A write in flight may land later; a panic may have lost sight of one.
    pub(super) fn leave_write(&self) {
        let writes = self.lease.as_ref().is_some_and(|lease| lease.is_writing());
        if writes || std::thread::panicking() {
            self.coordinator.registry.unsettle(self.key());
        }
    }
}

/// Also runs for an actor that panicked, which never reaches `stopped`.
impl Drop for LeaseActor {
    fn drop(&mut self) {
        // Before the exit notice: the successor reads the store later.
        self.leave_write();
        if self.started {
            self.coordinator.metrics.lease_actors.decrement(1.0);
        }
        if self.stuck {
            self.coordinator.stuck.note(self.key(), None);
        }
        match (self.homed, self.key().is_internal(), self.key().is_session()) {
            (true, false, _) => self.coordinator.count_homed(false, &self.pool),
            (true, _, true) => self.pool.sessions.decrement(1.0),
            (true, true, false) | (false, ..) => {}
        }
    }
}
