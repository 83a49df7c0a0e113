//! R3 to R5: leases whose home node is, or was, another node.
//!
//! A record names its home node: the incarnation that answers for the lease. While that node is alive, it answers the
//! holder's calls. Once its own record is terminal, the node that writes the lease next becomes its home node. Every
//! write carries F, the end of what the earlier home node may have promised.

use super::{
    Answer, Call, Caller, Effect, Env, Lease, Loaded, Moment, Mutant, Record, Request, Revision,
    State, StoreError,
    acquire::repeated,
    machine::{Effects, Flight, Home, RETRY},
    waiters::Waiter,
};

impl<C: Caller> Lease<C> {
    /// Determines who is the lease's home node now, and how long an earlier one may have promised.
    pub(super) fn reckon(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        let Some(peers) = &env.terms.peers else { return };
        let taken = self.record.state != State::Free || self.has_due_fences();
        if !taken || self.record.node == env.terms.node {
            self.home = Home::Here;
            return;
        }
        let peer = peers.get(self.record.node);
        let mut end = peer.and_then(|peer| peer.promises_end(&self.record));
        if env.terms.breaks(Mutant::TakeOverWithoutTombstone) {
            end = end.or_else(|| Some(peer?.presumed_end(&self.record)));
        }
        match end {
            Some(_) if self.home == Home::Gone => {}
            Some(mut end) => {
                if env.terms.resumed != Moment::ZERO {
                    // R4: this node lapsed itself and may have missed the holder.
                    end = end.max(env.terms.resumed + super::recover::own_ttl(&self.record));
                }
                if env.terms.breaks(Mutant::AdoptionWithoutFloor) {
                    end = env.now;
                }
                let unheard = self.record.bond().is_some() || self.has_due_fences();
                if self.home == Home::Living && unheard {
                    // A revocation is no change of ownership, and neither is the confirmation of one of several fences.
                    // This node may not have heard of them.
                    self.busy().stale = u64::MAX;
                }
                self.home = Home::Gone;
                self.have_reordered(out);
                (self.promised, self.floor, self.opens_at) = (Moment::ZERO, end, end);
            }
            None => {
                // A lease that a session keeps needs no home node. The record of one that died may be gone by now.
                let unknown = peer.is_none() && self.home != Home::Living;
                if unknown && !self.record.is_left_to_session() {
                    out.push(Effect::Inquire(self.record.node));
                }
                self.home = Home::Living;
                self.promised = Moment::ZERO;
                (self.floor, self.opens_at) = (Moment::NEVER, Moment::NEVER);
                if self.record.bond().is_some() && !self.is_ordered() {
                    // R6: the home node of such a lease promises nothing.
                    self.floor = Moment::ZERO;
                }
                if let (State::Cooling | State::Offered, Some(peer)) = (self.record.state, peer) {
                    // No home node can lengthen a lock-delay or an offer: it is over for every node at one instant. No
                    // change says that an offer lapsed.
                    self.opens_at = peer.span_end(&self.record);
                }
            }
        }
    }

    /// States in a record that is about to be written how much may still run: what is left of max(S, F), of the offer,
    /// or of the lock-delay.
    pub(super) fn restate(&self, record: &mut Record, env: &Env<'_>) {
        record.floor_ms = match record.state {
            State::Held if !env.terms.breaks(Mutant::FloorInMemoryOnly) => {
                self.promise_left_ms(env.now)
            }
            _ => 0,
        };
        if self.opens_at != Moment::NEVER {
            let left = super::bounds::ceil_ms(self.opens_at.since(env.now));
            if let Some(offer) = &mut record.offer
                && record.state == State::Offered
            {
                offer.span_ms = left;
            }
            if let Some(aftermath) = &mut record.aftermath {
                aftermath.cooling_ms = aftermath.cooling_ms.min(left);
            }
        }
    }

    /// R5: whether the call is about a tenure whose home node is another node that is alive.
    pub(super) fn belongs_home(&self, call: &Call<C>, env: &Env<'_>) -> bool {
        if self.home != Home::Living || self.record.bond().is_some_and(|_| !self.is_ordered()) {
            return false;
        }
        match &call.request {
            Request::Acquire(acquire) => {
                let tenure = self.record.tenure.as_ref();
                let mine = tenure.is_some_and(|tenure| tenure.owner == acquire.owner);
                let repeats = matches!(repeated(&self.record, acquire), Some(None));
                (repeats && !env.terms.breaks(Mutant::RepeatAnsweredElsewhere))
                    || (mine && acquire.reclaim)
            }
            Request::Heartbeat(beat) => {
                self.holds(beat.lease_id) && !env.terms.breaks(Mutant::HeartbeatAnsweredElsewhere)
            }
            // Consent ends a tenure without regard to promises, so any node may write it.
            Request::Release(release) => self.holds(release.lease_id) && !call.owner_unreachable,
            Request::Transfer(transfer) => {
                let consents = transfer.to.is_none() && call.owner_unreachable;
                self.holds(transfer.lease_id) && !consents
            }
            Request::Revoke(_) | Request::Pin(..) | Request::Unpin(..) => true,
            Request::FenceSkip(..) | Request::AskHandover(_) => true,
            Request::Forget(..) | Request::WriteTombstone | Request::View => false,
        }
    }

    /// R9: whether a caller must wait at another node. Callers wait at the key's home node, in one queue, while that
    /// node is alive. A caller that waits on several keys waits here, and so does one that the home node did not
    /// answer.
    pub(super) fn queues_elsewhere(&self, waiter: &Waiter<C>, env: &Env<'_>) -> bool {
        let acquire = &waiter.acquire;
        let tenure = self.record.tenure.as_ref();
        self.home == Home::Living
            && self.record.state != State::Free
            && waiter.deadline() > env.now
            && !waiter.owner_unreachable
            && !waiter.caller.is_registration()
            && tenure.is_none_or(|tenure| tenure.owner != acquire.owner)
            && repeated(&self.record, acquire).is_none()
            && !self.open_to(acquire, env.now)
    }

    /// Moves the queue to the key's new home node.
    pub(super) fn send_home(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        if self.home != Home::Living || self.waiters_len() == 0 {
            return;
        }
        let mut waiters = std::mem::take(self.waiters());
        let moving = waiters.take(|waiter| self.queues_elsewhere(waiter, env));
        *self.waiters() = waiters;
        for waiter in moving {
            out.push(Effect::Reply(waiter.caller, Answer::Elsewhere(self.record.node)));
        }
    }

    /// R6: the revocation of a kept lease may have landed after the session was adopted, and the node that ordered it
    /// is gone. Its floor then does not cover what the session's current home node promised. So that node reissues the
    /// revocation.
    pub(super) fn have_reordered(&self, out: &mut Effects<C>) {
        if let (Some(bond), Some(_)) = (self.record.bond(), &self.record.revocation) {
            out.push(Effect::Reorder(bond.session));
        }
    }

    /// Whether an administrator revoked the tenure.
    fn is_ordered(&self) -> bool {
        self.record.revocation.is_some()
    }

    /// R5: adopts the lease of a dead home node, with the same owner and token, and answers the call when that is
    /// durable.
    pub(super) fn adopt_for(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let nonce = (env.nonces)();
        let record = self.successor(nonce, env);
        let mut flight = Flight::new(record, self.revision, Vec::new());
        flight.cause = Some(call);
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
        if env.terms.may_promise(env.now) {
            self.launch(flight, out);
        } else if let Some(call) = flight.cause {
            out.push(Effect::Reply(call.caller, Answer::Lapsed));
        }
    }

    /// Whether the call would be refused because of a record that another node may have changed without this node's
    /// knowledge. That can happen at the home node, too: others write consent without it, and it may have been found
    /// dead. A call that leads to a write needs no look: the compare-and-set is one.
    pub(super) fn needs_look(&self, call: &Call<C>, env: &Env<'_>) -> bool {
        // A look that is still under way says nothing.
        let busy = self.busy.as_ref();
        let fresh = busy.is_some_and(|busy| !busy.looking && call.received <= busy.looked);
        if fresh || env.terms.peers.is_none() {
            return false;
        }
        match &call.request {
            Request::Acquire(acquire) => self.home != Home::Here && !acquire.allow_stale,
            Request::Heartbeat(beat) => !self.holds(beat.lease_id),
            Request::Release(release) => !self.holds(release.lease_id),
            Request::Transfer(transfer) => !self.holds(transfer.lease_id),
            Request::Revoke(_) => self.record.state == State::Free,
            Request::AskHandover(_) => self.record.tenure.is_none(),
            Request::FenceSkip(..) => self.record.fences().is_empty(),
            Request::Pin(by, _) => self.record.pins.contains(by) || self.pins_wait(),
            Request::Unpin(by, _) => !self.record.pins.contains(by) || self.pins_wait(),
            Request::Forget(..) => self.record.state != State::Free,
            Request::WriteTombstone | Request::View => false,
        }
    }

    /// Whether a change of the pins waits for a look. A later change of them must wait as well.
    fn pins_wait(&self) -> bool {
        let waits = |call: &Call<C>| matches!(call.request, Request::Pin(..) | Request::Unpin(..));
        self.busy.as_ref().is_some_and(|busy| busy.looking && busy.deferred.iter().any(waits))
    }

    /// Defers the call until the store was read, ahead of calls that arrived later.
    pub(super) fn look_for(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        if self.busy().deferred.len() >= env.terms.inflight_per_key {
            out.push(Effect::Reply(call.caller, Answer::Busy));
            return;
        }
        let deferred = &mut self.busy().deferred;
        let at = deferred.iter().position(|later| later.received > call.received);
        deferred.insert(at.unwrap_or(deferred.len()), call);
        if !self.busy().looking {
            self.look(env, out);
        }
    }

    /// Compares what is known with the store. The read answers every call that arrived before this moment.
    pub(super) fn look(&mut self, env: &Env<'_>, out: &mut Effects<C>) {
        let busy = self.busy();
        (busy.looking, busy.looked, busy.crossed) = (true, env.now, false);
        busy.stale = 0;
        out.push(Effect::Read);
    }

    /// The store answered a look.
    pub(super) fn looked(
        &mut self,
        there: Result<Loaded, StoreError>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        if !self.busy.as_ref().is_some_and(|busy| busy.looking) {
            return;
        }
        let known = self.revision;
        let busy = self.busy();
        busy.looking = false;
        if std::mem::take(&mut busy.crossed) || busy.flight.is_some() {
            // A write was sent meanwhile: the read may show what was there before it.
            (busy.looked, busy.stale) = (Moment::ZERO, u64::MAX);
            return;
        }
        match there {
            Err(error) => {
                // The callers in the queue are not forgotten: the next look follows soon.
                (busy.stale, busy.retry_at) = (u64::MAX, env.now + RETRY);
                for call in std::mem::take(&mut busy.deferred) {
                    out.push(Effect::Reply(call.caller, Answer::Store(error.clone())));
                }
            }
            Ok(Loaded::Absent) if known == Revision::ABSENT => {}
            // What is known is at least as new.
            Ok(Loaded::Record(revision, _) | Loaded::Quarantined(revision, _))
                if revision <= known && self.quarantine.is_none() => {}
            Ok(there) => {
                self.rebase(there, env, out);
                self.recall_repeats();
                self.send_home(env, out);
                if self.flight().is_none() {
                    self.serve_waiters(env, out);
                }
            }
        }
    }

    /// Another node made the change `seq` of the key. With `u64::MAX`, it may have made any change.
    pub(super) fn stale(&mut self, seq: u64, env: &mut Env<'_>, out: &mut Effects<C>) {
        let own = self.record.state != State::Free && self.record.node == env.terms.node;
        if seq <= self.record.seq || (seq == u64::MAX && own) {
            return;
        }
        let busy = self.busy();
        if busy.flight.is_some() || busy.looking {
            busy.stale = busy.stale.max(seq);
        } else {
            self.look(env, out);
        }
    }

    /// Whether this node must sit out. While it may not promise, it ends no tenure, because the holders could not reach
    /// it. It puts off what is due and reports nothing.
    pub(super) fn sits_out(&mut self, env: &Env<'_>) -> bool {
        let reading = self.flight().is_some_and(|flight| flight.reading);
        if env.terms.may_promise(env.now) || reading {
            return false;
        }
        match self.record.state {
            State::Held if self.home != Home::Living => {
                let span = super::recover::own_ttl(&self.record);
                if !self.graced {
                    self.floor = self.floor.max(env.now + span);
                }
                if self.run_out(env.now) {
                    // A lease whose session is over has a span of zero: it is due again at once.
                    let awaited = self.waiters_len() > 0;
                    self.busy().retry_at = env.now + if awaited { RETRY } else { span.max(RETRY) };
                    return true;
                }
            }
            State::Offered | State::Cooling if self.home != Home::Living => {
                self.opens_at = self.opens_at.max(env.now + RETRY);
            }
            _ => {}
        }
        if let Some(busy) = &mut self.busy
            && (busy.waiters.len() > 0 || busy.retry_at != Moment::ZERO || busy.over.is_some())
        {
            busy.retry_at = env.now + RETRY;
        }
        true
    }

    /// Whether anything may be granted now.
    pub(super) fn may_grant(&self, env: &Env<'_>) -> bool {
        env.terms.may_promise(env.now) && !self.is_frozen(env)
    }

    /// R7: whether the store went backwards, or the key's token belongs to a later epoch than this node's.
    pub(super) fn is_frozen(&self, env: &Env<'_>) -> bool {
        env.terms.frozen || self.token.epoch() > env.terms.epoch
    }
}
