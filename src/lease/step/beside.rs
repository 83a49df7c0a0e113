//! R1: promises that are made beside the lease's actor, in its promise cell.
//!
//! A step closes the cell first, and so knows every promise that was made. At its end it opens the cell again if, until
//! the next step, the lease would absorb every heartbeat that changes nothing. The first such heartbeat of a tenure goes
//! to the actor and makes the cell. A tenure whose holder sends none has no cell.

use std::{sync::Arc, time::Duration};

use super::{
    context::{Env, NodeContext},
    lease::Lease,
    own_cell::OwnCell,
};
use crate::lease::{
    message::{Caller, Heartbeat},
    primitives::{Moment, Token},
    promise_cell::{PromiseCell, PromiseTerms},
};

/// A heartbeat that was absorbed beside the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absorbed {
    /// The token of the tenure that goes on.
    pub token: Token,
    /// How long the tenure was promised, in milliseconds from the reading of the clock on.
    pub ttl_ms: u64,
    /// The holder's window, in milliseconds from before it sent the heartbeat, on its own clock.
    pub valid_for_ms: u64,
    /// S before this promise.
    before: Moment,
}

impl Absorbed {
    /// The share of the ttl that was left when the heartbeat arrived.
    #[must_use]
    pub fn margin(&self, received: Moment) -> f64 {
        let ttl = Duration::from_millis(self.ttl_ms).as_secs_f64();
        (self.before.since(received).as_secs_f64() / ttl).clamp(0.0, 1.0)
    }
}

impl NodeContext {
    /// R1: absorbs a heartbeat that arrived at `received`, in the promise cell of its lease, on one reading of the clock.
    /// `None`: nothing is promised, and the lease's actor decides.
    #[must_use]
    pub fn absorb_in(
        &self,
        cell: &PromiseCell,
        beat: &Heartbeat,
        received: Moment,
        decided: Moment,
    ) -> Option<Absorbed> {
        let (terms, rules) = (cell.terms(), self.rules);
        let plain = beat.value.is_none() && beat.ttl_ms.is_none_or(|ttl_ms| ttl_ms == terms.ttl_ms);
        let own = terms.node == self.node && terms.epoch == self.epoch;
        if !plain
            || !rules.proves(terms.lease_id, beat.lease_id)
            || !rules.a_cell_promises(own)
            || !self.may_promise(decided)
        {
            return None;
        }
        let before = cell.promise(decided)?;
        let ttl = Duration::from_millis(terms.ttl_ms);
        let valid_for_ms = rules.a_holder_is_told(received, decided, ttl);
        Some(Absorbed { token: terms.token, ttl_ms: terms.ttl_ms, valid_for_ms, before })
    }
}

impl<C: Caller> Lease<C> {
    /// The promise cell, if the holder is served beside the actor.
    #[must_use]
    pub fn promise_cell(&self) -> Option<&Arc<PromiseCell>> {
        self.cell.as_ref().map(OwnCell::shared)
    }

    /// S at this moment, wherever it is kept.
    pub(super) fn latest_promise(&self) -> Moment {
        let beside = self.cell.as_ref().and_then(OwnCell::promised);
        beside.map_or(self.promised, |promised| promised.max(self.promised))
    }

    /// R2: takes S back. From now on the actor alone promises.
    pub(super) fn close_cell(&mut self) {
        if let Some(promised) = self.cell.as_ref().and_then(OwnCell::close) {
            self.promised = self.promised.max(promised);
        }
    }

    /// Opens the cell until the next step, if every plain heartbeat that arrives until then may be absorbed. A cell of
    /// other terms is given up.
    pub(super) fn open_cell(&mut self, env: &Env<'_>) {
        let terms = self.promise_terms(env);
        self.cell.take_if(|cell| terms.as_ref() != Some(cell.terms()));
        if self.absorbs_beside(env)
            && let Some(cell) = &self.cell
        {
            cell.open(std::mem::take(&mut self.promised));
        }
    }

    /// From now on the holder is served beside the actor.
    pub(super) fn serve_beside(&mut self, env: &Env<'_>) {
        let Some(terms) = self.promise_terms(env) else { return };
        if self.cell.as_ref().is_none_or(|cell| *cell.terms() != terms) {
            self.cell = Some(OwnCell::new(terms, env.context.rules));
        }
    }

    /// What a heartbeat is promised here. `None`: this node is not the home node of a tenure.
    fn promise_terms(&self, env: &Env<'_>) -> Option<PromiseTerms> {
        let tenure = self.record.tenure.as_ref().filter(|_| self.is_home())?;
        let NodeContext { node, epoch, .. } = *env.context;
        let (token, ttl_ms) = (self.token, tenure.ttl_ms);
        Some(PromiseTerms { lease_id: self.lease_id?, token, ttl_ms, node, epoch })
    }

    /// Whether the lease absorbs every plain heartbeat until its next step. While the cell is open, S alone says when
    /// the tenure ends, and no later step needs to know that the holder was heard.
    fn absorbs_beside(&self, env: &Env<'_>) -> bool {
        let can_end = self.flight().is_some_and(|flight| flight.ends);
        self.is_home()
            && self.quarantine.is_none()
            && self.record.session_ref().is_none()
            && self.record.revocation.is_none()
            && self.record.pins.is_empty()
            && !self.graced
            && self.floor <= self.promised
            && !Self::is_outlived(self.token, env)
            && env.context.rules.a_cell_is_open_beside_a_write(can_end)
    }
}
