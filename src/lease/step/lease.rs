//! The state of one lease, and what every part of the machine reads from it.
//!
//! Promises are made from the settled record, never from the one in flight.

use std::{sync::Arc, time::Duration};

use super::{busy::Busy, context::Env, flight::Flight, own_cell::OwnCell, waiters::Waiters};
use crate::lease::{
    message::{Caller, Effect, Effects},
    primitives::{LeaseId, Moment, Owner, Revision, Token, ceil_ms},
    records::{KeyState, Record, Tenure},
};

/// The pause before a write or read that no caller waits for is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(250);

/// Which node is the home node of a lease that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Home {
    /// This node, or the lease is not held.
    #[default]
    Here,
    /// Another node, which is alive as far as this node knows.
    Living,
    /// A node whose record is terminal: the node that writes the lease next becomes its home node.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease<C> {
    /// The record as last settled.
    pub(super) record: Arc<Record>,
    pub(super) revision: Revision,
    /// The token of the current tenure, or of the last one.
    pub(super) token: Token,
    /// The lease id of the current tenure.
    pub(super) lease_id: Option<LeaseId>,
    /// S: the end of the latest promise that was made since this actor knows the lease. While the promise cell is open,
    /// S is there, and this is [`Moment::ZERO`].
    pub(super) promised: Moment,
    /// Where promises are made beside the actor. `None` as long as the holder sends no heartbeats.
    pub(super) cell: Option<OwnCell>,
    /// F: the inherited floor; [`Moment::NEVER`] while another node may promise.
    pub(super) floor: Moment,
    /// When the offer runs out or the lock-delay is over.
    pub(super) opens_at: Moment,
    /// Until when the key was shut to others as the present tenure, or the last one, was granted.
    /// [`Moment::NEVER`] where that is not known.
    pub(super) shut_before: Moment,
    /// No answer named the present tenure so far. Its caller left, and may repeat the call under its request id.
    pub(super) unheard: bool,
    pub(super) home: Home,
    /// The tenure got one more ttl after a lapse, and its holder was not heard since.
    pub(super) graced: bool,
    /// Set while the record is quarantined.
    pub(super) quarantine: Option<Box<Quarantine>>,
    /// The state that an idle lease does not need.
    pub(super) busy: Option<Box<Busy<C>>>,
}

/// A record that is unreadable or lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quarantine {
    pub(super) why: Box<str>,
    /// Until when the record is not read again.
    pub(super) until: Moment,
    /// The record as it was last known, if its session or another node may still promise it. If the store has lost the
    /// record, that frees nothing.
    pub(super) elsewhere: Option<Arc<Record>>,
}

impl<C: Caller> Lease<C> {
    pub(super) fn with(record: Arc<Record>, revision: Revision) -> Self {
        Self {
            record,
            revision,
            token: Token::default(),
            lease_id: None,
            promised: Moment::ZERO,
            cell: None,
            floor: Moment::ZERO,
            opens_at: Moment::ZERO,
            shut_before: Moment::ZERO,
            unheard: false,
            home: Home::Here,
            graced: false,
            quarantine: None,
            busy: None,
        }
    }

    /// Whether the lease can leave memory without losing anything: this node is not the home node of a tenure, and no
    /// caller waits.
    pub fn is_idle(&self) -> bool {
        let others = self.record.state == KeyState::Free || self.home == Home::Living;
        others && self.busy.is_none() && self.quarantine.is_none()
    }

    pub(super) fn busy(&mut self) -> &mut Busy<C> {
        self.busy.get_or_insert_default()
    }

    pub(super) fn waiters(&mut self) -> &mut Waiters<C> {
        &mut self.busy().waiters
    }

    /// Whether the store refused a request recently and must not be asked again yet.
    pub(super) fn retrying(&self, now: Moment) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.retry_at > now)
    }

    pub(super) fn waiters_len(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.waiters.len())
    }

    /// Whether a caller waits that is still there.
    pub(super) fn is_awaited(&self) -> bool {
        self.busy.as_ref().is_some_and(|busy| busy.waiters.is_awaited())
    }

    pub(super) fn waiters_present(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.waiters.present())
    }

    pub(super) fn flight(&self) -> Option<&Flight<C>> {
        self.busy.as_ref().and_then(|busy| busy.flight.as_ref())
    }

    /// Starts a write. R2: if it can end the tenure, no heartbeat is absorbed until it is settled.
    pub(super) fn launch(&mut self, flight: Flight<C>, out: &mut Effects<C>) {
        debug_assert!(self.flight().is_none(), "one compare-and-set in flight");
        out.push(Effect::Write(flight.write.clone()));
        let busy = self.busy();
        busy.flight = Some(flight);
        busy.crossed |= busy.looking;
    }

    /// The next record, with the fields that every write sets.
    pub(super) fn successor(&self, env: &mut Env<'_>) -> Record {
        let mut record = Record {
            nonce: (env.nonces)(),
            node: env.context.node,
            epoch: env.context.epoch,
            written: env.now,
            ..(*self.record).clone()
        };
        self.settle_token(&mut record);
        self.restate(&mut record, env);
        #[cfg(feature = "testing")]
        record.renew_novelty(env.context.level);
        record
    }

    /// In later writes of the tenure, the record contains its token as a number.
    pub(super) fn settle_token(&self, record: &mut Record) {
        if let Some(tenure) = &mut record.tenure {
            tenure.token = self.token;
        }
    }

    pub(super) fn ttl(&self) -> Duration {
        Duration::from_millis(self.record.tenure.as_ref().map_or(0, |tenure| tenure.ttl_ms))
    }

    pub(super) fn ttl_ms(&self) -> u64 {
        self.record.tenure.as_ref().map_or(0, |tenure| tenure.ttl_ms)
    }

    /// How long a promise may still run, in whole milliseconds, rounded up.
    pub(super) fn promise_left_ms(&self, now: Moment) -> u64 {
        ceil_ms(self.promised.max(self.floor).since(now))
    }

    pub(super) fn last_owner(&self) -> Option<(Owner, Token)> {
        let ended = self.record.previous.as_ref()?;
        Some((ended.tenure.owner.clone(), ended.tenure.token))
    }

    pub(super) fn holds(&self, proof: LeaseId, env: &Env<'_>) -> bool {
        self.lease_id.is_some_and(|own| env.context.rules.proves(own, proof))
    }
}

/// The lease id of a tenure, as its principal shows it.
pub(super) fn proof_of(tenure: &Tenure, env: &Env<'_>) -> LeaseId {
    let id = env.context.secret.lease_id(env.key, tenure.grant_nonce);
    id.by(tenure.owner.principal_digest())
}
