//! What a lease actor does because this node became the home node of its lease, or ceased to be.

use std::sync::Arc;

use super::actor::LeaseActor;
use crate::{
    actor::{runtime::cells::CellEntry, sessions::HealthChecks},
    lease::{Announced, KeyState, Nonce, PromiseCell, View},
};

impl LeaseActor {
    /// Follows whether this node is the home node of the lease: counts the lease, or takes in or lets go the session
    /// whose lease it is. Returns whether this node has just become the home node.
    pub(super) fn follow_home(&mut self) -> bool {
        self.follow_policies();
        let homed = self.lease.as_ref().is_some_and(|lease| lease.is_home());
        if homed == self.homed {
            return false;
        }
        self.homed = homed;
        match self.key().session() {
            Some(digest) if homed => self.take_in_session(digest),
            Some(digest) => self.let_session_go(digest),
            None if self.key().is_internal() => {}
            None => {
                self.coordinator.count_homed(homed, &self.pool);
                self.uncount_left();
            }
        }
        homed
    }

    /// This actor counts the lease, which an earlier home node left to a session.
    fn uncount_left(&self) {
        let left = &self.coordinator.sessions.left;
        if left.count() > 0
            && let Some(lease) = &self.lease
            && let Some(session) = lease.view(self.coordinator.clock.now()).session
        {
            left.changed(session, self.key(), u64::MAX);
        }
    }

    /// When the policies changed, counts the lease in the pool that its key now belongs to.
    fn follow_policies(&mut self) {
        let table = self.coordinator.policy_table();
        if table.version() == self.policies || self.key().is_internal() {
            return;
        }
        let pool = table.of(self.key().as_str()).1.clone();
        self.policies = table.version();
        let before = std::mem::replace(&mut self.pool, pool);
        if self.homed {
            before.held.decrement(1.0);
            self.pool.held.increment(1.0);
        }
        if let Some(cell) = &self.shown {
            self.put_cell(cell);
        }
    }

    /// Has heartbeats find the promise cell that the lease has now.
    pub(super) fn show_cell(&mut self) {
        let cell = self.lease.as_ref().and_then(|lease| lease.promise_cell());
        if cell.map(Arc::as_ptr) == self.shown.as_ref().map(Arc::as_ptr) {
            return;
        }
        let cell = cell.cloned();
        match &cell {
            Some(cell) => self.put_cell(cell),
            None => self.coordinator.registry.cells.remove(self.key().as_str()),
        }
        self.shown = cell;
    }

    fn put_cell(&self, cell: &Arc<PromiseCell>) {
        let entry = CellEntry { cell: cell.clone(), pool: self.pool.clone() };
        self.coordinator.registry.cells.put(self.key().clone(), entry);
    }

    /// This node became the home node of a session. The session is known here from now on, joins its pool, and has its
    /// checks run.
    fn take_in_session(&mut self, digest: Nonce) {
        self.health_checks = None;
        let Some(lease) = &self.lease else { return };
        let fresh = lease.tenure_mark() != (self.held, self.token);
        let view = lease.view(self.coordinator.clock.now());
        let pool = view.spec.as_ref().and_then(|spec| spec.pool.as_deref());
        if let Some(pool) =
            pool.and_then(|pool| self.coordinator.policy_table().named(pool).cloned())
        {
            self.pool = pool;
        }
        self.pool.sessions.increment(1.0);
        let (Some(owner), Some(spec)) = (view.owner, view.spec) else {
            return tracing::error!(
                session = %digest,
                "the record of this session lacks its owner or its spec; this node does not serve the session"
            );
        };
        let ttl_ms = view.ttl_ms.unwrap_or(0);
        let coordinator = &self.coordinator;
        let returns = spec.pool.as_deref().filter(|pool| coordinator.policy_table().returns(pool));
        let home = (coordinator.node_context().node, returns.map(|_| view.token));
        let announced = Announced::of_value(view.value.as_deref());
        coordinator.pools.joined(digest, &owner, &spec, home, announced);
        let session = coordinator.sessions.attach(digest, (&owner, ttl_ms), *spec, fresh);
        self.health_checks =
            HealthChecks::begin(&coordinator.session_service, &session).map(Box::new);
    }

    /// This node ceased to be the home node of a session.
    fn let_session_go(&mut self, digest: Nonce) {
        self.health_checks = None;
        self.leave_session(digest);
        self.pool.sessions.decrement(1.0);
    }

    /// This node is not the home node of this session.
    pub(super) fn leave_session(&self, digest: Nonce) {
        let coordinator = &self.coordinator;
        let view = self.lease.as_ref().map(|lease| lease.view(coordinator.clock.now()));
        let over = |view: View| view.known && !view.quarantined && view.state != KeyState::Held;
        if !view.is_some_and(over) {
            coordinator.sessions.detach(digest);
            // A store that went backwards may have no record of the session, and then the feed does not report its end.
            if coordinator.pools.has(digest) {
                coordinator.sessions.inquire(digest, []);
            }
        } else if self.restarted {
            // The feed reports its end, and may have done so before this actor read that the session lives.
            coordinator.sessions.inquire_anew(digest, []);
        }
    }

    /// The time that a holder has for a hand-over starts now, whether this or an earlier home node asked for it.
    pub(super) fn note_handover(&mut self) {
        let Some(lease) = &self.lease else { return };
        let Some(ask) = lease.handover().filter(|_| self.homed) else { return };
        let token = lease.tenure_mark().1;
        if self.asked != token {
            self.asked = token;
            let (session, now) = (lease.kept_by(), self.coordinator.clock.now());
            let sessions = &self.coordinator.sessions;
            sessions.asked_to_hand_over(self.key(), token, session, ask, now);
        }
    }
}
