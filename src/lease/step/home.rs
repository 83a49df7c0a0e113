//! R3 to R5: leases whose home node is, or was, another node.
//!
//! A record names its home node: the incarnation that answers for the lease. While that node is alive, it answers the
//! holder's calls. Once its own record is terminal, the node that writes the lease next becomes its home node. Every
//! write carries F, the end of what the earlier home node may have promised.

use super::{
    context::Env,
    flight::Flight,
    lease::{Home, Lease},
    repeat::{Repeat, repeated},
};
use crate::lease::{
    cluster::Peer,
    message::{Answer, Call, Caller, Effect, Effects, Request},
    primitives::{Moment, ceil_ms},
    records::{KeyState, Record},
    rules::Rules,
};

impl<C: Caller> Lease<C> {
    /// Determines which node is the lease's home node now, and until when an earlier one may have promised.
    pub(super) fn reckon(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        let Some(peers) = &env.context.peers else { return };
        let taken = self.record.state != KeyState::Free || self.has_due_fences();
        if !taken || self.record.node == env.context.node {
            self.home = Home::Here;
            return;
        }
        let peer = peers.get(self.record.node);
        let gone =
            peer.filter(|peer| env.context.rules.a_lease_may_be_taken_from(peer.record.state));
        match gone {
            Some(_) if self.home == Home::Gone => {}
            Some(gone) => self.home_is_gone(gone, env, out),
            None => self.home_lives(peer, out),
        }
    }

    /// The home node is gone: the tenure stands until every promise of that node has run out.
    fn home_is_gone(&mut self, gone: &Peer, env: &Env<'_>, out: &mut Effects<C>) {
        let end = Self::promises_of_the_gone_end(gone, &self.record, env);
        let unheard = self.record.session_ref().is_some() || self.has_due_fences();
        if self.home == Home::Living && unheard {
            // A revocation is no change of ownership, and neither is the confirmation of one of several fences. This
            // node may not have heard of them.
            self.busy().stale = u64::MAX;
        }
        self.home = Home::Gone;
        self.have_reordered(out);
        let shut = self.shut_end(Some(gone));
        (self.promised, self.floor) = (Moment::ZERO, end);
        self.opens_at = match self.record.state {
            KeyState::Held if self.record.shut_ms() > 0 => end.max(shut),
            KeyState::Cooling | KeyState::Offered => end.min(shut),
            _ => end,
        };
    }

    /// When a lock-delay, an offer or a minimum hold of another home node is over. That is one instant for every node,
    /// and nobody can lengthen it. The clock of its home node tells; but it is over at the latest when its whole span
    /// has passed since this node read the record, even if that clock has jumped.
    fn shut_end(&self, peer: Option<&Peer>) -> Moment {
        let told = peer.map_or(Moment::NEVER, |peer| peer.shut_end(&self.record));
        told.min(self.opens_at)
    }

    /// When every promise that a home node that is gone made under this record has run out.
    pub(super) fn promises_of_the_gone_end(gone: &Peer, record: &Record, env: &Env<'_>) -> Moment {
        let (ttl, resumed) = (record.own_ttl(), env.context.resumed);
        let end = gone.promises_end(record);
        let end = Rules::a_rival_that_lapsed_waits_until(end, resumed, ttl);
        env.context.rules.an_adopter_keeps_the_floor(end, env.now)
    }

    /// The home node may promise at any time, as far as this node knows.
    fn home_lives(&mut self, peer: Option<&Peer>, out: &mut Effects<C>) {
        // A lease that a session keeps needs no home node. The record of one that died may be gone by now.
        let unknown = peer.is_none() && self.home != Home::Living;
        if unknown && !self.record.is_left_to_session() {
            out.push(Effect::Inquire(self.record.node));
        }
        self.home = Home::Living;
        self.promised = Moment::ZERO;
        let shut = self.shut_end(peer);
        (self.floor, self.opens_at) = (Moment::NEVER, Moment::NEVER);
        if self.record.session_ref().is_some() && !self.is_ordered() {
            // R6: the home node of such a lease promises nothing.
            self.floor = Moment::ZERO;
        }
        let passes = matches!(self.record.state, KeyState::Cooling | KeyState::Offered);
        let held = self.record.state == KeyState::Held && self.record.shut_ms() > 0;
        if passes || held {
            // No change says that an offer lapsed.
            self.opens_at = shut;
        }
    }

    /// States in a record that is about to be written how much may still run: what is left of max(S, F), of the offer,
    /// or of the lock-delay.
    pub(super) fn restate(&self, record: &mut Record, env: &Env<'_>) {
        record.floor_ms = match record.state {
            KeyState::Held if env.context.rules.a_floor_is_written() => {
                self.promise_left_ms(env.now)
            }
            _ => 0,
        };
        if self.opens_at != Moment::NEVER {
            let left = ceil_ms(self.opens_at.since(env.now));
            if let Some(offer) = &mut record.offer
                && record.state == KeyState::Offered
            {
                offer.span_ms = left;
            }
            if let Some(fences_and_delay) = &mut record.fences_and_delay {
                fences_and_delay.cooling_ms = fences_and_delay.cooling_ms.min(left);
            }
        }
    }

    /// R5: whether the call is about a tenure whose home node is another node that is alive.
    pub(super) fn belongs_home(&self, call: &Call<C>, env: &Env<'_>) -> bool {
        if self.home != Home::Living
            || self.record.session_ref().is_some_and(|_| !self.is_ordered())
        {
            return false;
        }
        match &call.request {
            Request::Acquire(acquire) => {
                let tenure = self.record.tenure.as_ref();
                let rules = env.context.rules;
                let mine = tenure.is_some_and(|t| rules.is_owner(&t.owner, &acquire.owner));
                let repeats = repeated(&self.record, acquire) == Some(Repeat::Stands);
                env.context.rules.an_acquire_belongs_home(repeats, mine && acquire.reclaim)
            }
            Request::Heartbeat(beat) => {
                env.context.rules.a_heartbeat_belongs_home(self.holds(beat.lease_id, env))
            }
            Request::Release(release) => Rules::consent_belongs_home(
                self.holds(release.lease_id, env),
                call.home_unreachable,
            ),
            Request::GiveBack(back) => {
                Rules::consent_belongs_home(self.holds(back.lease_id, env), call.home_unreachable)
            }
            Request::Transfer(transfer) => {
                let consent_alone = transfer.to.is_none() && call.home_unreachable;
                Rules::consent_belongs_home(self.holds(transfer.lease_id, env), consent_alone)
            }
            Request::Revoke(_) | Request::Pin(..) | Request::Unpin(..) => true,
            Request::FenceSkip(..) | Request::FenceRetry(_) | Request::AskHandover(_) => true,
            Request::Forget(..) | Request::WriteTombstone | Request::View => false,
        }
    }

    /// R6: the revocation of a kept lease may have landed after the session was adopted, and the node that ordered it
    /// is gone. Its floor then does not cover what the session's current home node promised. So that node reissues the
    /// revocation.
    pub(super) fn have_reordered(&self, out: &mut Effects<C>) {
        if let (Some(session_ref), Some(_)) = (self.record.session_ref(), &self.record.revocation) {
            out.push(Effect::Reissue(session_ref.session));
        }
    }

    /// Whether an administrator revoked the tenure.
    fn is_ordered(&self) -> bool {
        self.record.revocation.is_some()
    }

    /// R5: adopts the lease of a dead home node, with the same owner and token, and answers the call when that is
    /// durable.
    pub(super) fn adopt_for(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let record = self.successor(env);
        let flight = Flight::new(record, self.revision, Vec::new()).for_call(call);
        self.launch_as_home(flight, env, out);
    }

    /// Starts a write that keeps a tenure or an offer and so makes this node its home node. It does so only while this
    /// node may promise. An incarnation that has no record, or let it run out, would leave the lease to a home node
    /// that others find dead or do not find at all.
    pub(super) fn launch_as_home(
        &mut self,
        flight: Flight<C>,
        env: &Env<'_>,
        out: &mut Effects<C>,
    ) {
        if env.context.may_promise(env.now) {
            self.launch(flight, out);
        } else if let Some(call) = flight.cause {
            out.push(Effect::Reply(call.caller, Answer::Lapsed));
        }
    }
}
