//! Looks: what is known of the record is compared with the store before a call is refused because of it (R5).

use super::{
    context::Env,
    lease::{Home, Lease, RETRY},
};
use crate::lease::{
    message::{
        Answer, Call, Caller, Effect, Effects, Elsewhere, Loaded, ReadFor, Request, StoreError,
    },
    primitives::{Moment, Revision},
    records::KeyState,
};

impl<C: Caller> Lease<C> {
    /// Whether a refusal of this call would rest on a record that another node may have changed since. The home node
    /// looks, too: other nodes write consent without it, and they may have found it dead. A call that leads to a write
    /// needs no look, because its compare-and-set is one.
    pub(super) fn needs_look(&self, call: &Call<C>, env: &Env<'_>) -> bool {
        // A look that is still under way says nothing.
        let busy = self.busy.as_ref();
        let fresh = busy.is_some_and(|busy| !busy.looking && call.received <= busy.looked);
        if fresh || env.context.peers.is_none() {
            return false;
        }
        match &call.request {
            Request::Acquire(acquire) => self.home != Home::Here && !acquire.allow_stale,
            Request::Heartbeat(beat) => !self.holds(beat.lease_id, env),
            Request::Release(release) => !self.holds(release.lease_id, env),
            Request::GiveBack(back) => !self.holds(back.lease_id, env),
            Request::Transfer(transfer) => !self.holds(transfer.lease_id, env),
            Request::Revoke(_) => self.record.state == KeyState::Free,
            Request::AskHandover(_) => self.record.tenure.is_none(),
            Request::FenceSkip(..) => self.record.fences().is_empty(),
            Request::FenceRetry(plugin) => !self.has_failed_fence(plugin.as_deref()),
            Request::Pin(by, _) => self.record.pins.contains(by) || self.pins_wait(),
            Request::Unpin(by, _) => !self.record.pins.contains(by) || self.pins_wait(),
            Request::Forget(..) => self.record.state != KeyState::Free,
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
        if self.busy().deferred.len() >= env.context.inflight_per_key {
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
        out.push(Effect::Read(ReadFor::Look));
    }

    /// The store answered a look.
    pub(super) fn looked(
        &mut self,
        there: Result<Loaded, StoreError>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
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

    /// Another node, or an earlier actor of the key, changed the key, or may have.
    pub(super) fn stale(&mut self, change: Elsewhere, env: &mut Env<'_>, out: &mut Effects<C>) {
        let own = self.record.state != KeyState::Free && self.record.node == env.context.node;
        let seq = match change {
            Elsewhere::Unheard if own => return,
            Elsewhere::Change { seq, .. } if seq > self.record.seq => seq,
            Elsewhere::Change { token, .. } if token <= self.token => return,
            // The record was removed while this node knew it, and another node granted the key.
            Elsewhere::Change { .. } => u64::MAX,
            Elsewhere::Unheard => u64::MAX,
        };
        let busy = self.busy();
        if busy.flight.is_some() || busy.looking {
            busy.stale = busy.stale.max(seq);
        } else {
            self.look(env, out);
        }
    }
}
