//! R6: tenures that a session keeps.
//!
//! A lease that a session keeps makes no promise of its own. It ends when the session's tombstone is known to be durable.

use super::{context::Env, draft::End, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Request, SessionOver},
    records::{ChangeKind, KeyState, Record},
};

impl<C: Caller> Lease<C> {
    /// The session's end, if it is known and this session kept the tenure.
    pub(super) fn over(&self) -> Option<&SessionOver> {
        let over = self.busy.as_ref()?.over.as_ref()?;
        (self.record.session_ref()?.session == over.session).then_some(over)
    }

    /// The tombstone of a session is durable: the sender saw it committed, or read it.
    pub(super) fn session_over(
        &mut self,
        over: SessionOver,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let kept =
            |record: &Record| record.session_ref().is_some_and(|b| b.session == over.session);
        if let Some(quarantine) = &mut self.quarantine {
            // The store lost the record of a lease that this session kept.
            quarantine.elsewhere.take_if(|lost| kept(lost));
        }
        let arriving = self.flight().is_some_and(|flight| kept(&flight.write.record));
        if !kept(&self.record) && !arriving {
            return;
        }
        self.busy().over = Some(over);
        // Other nodes count the time spans in an end from this node's record, so this node must have one.
        if self.flight().is_none() && !self.sits_out(env) {
            self.expire(env, out);
        }
    }

    /// The end of a tenure whose session is over.
    pub(super) fn session_end(&self, over: &SessionOver) -> End {
        End {
            reason: Some(over.cause.clone()),
            actor: over.actor.clone(),
            unheard: self.unheard,
            ..End::of(ChangeKind::SessionEnded)
        }
    }

    /// Asks whether the session that keeps the tenure is still alive.
    pub(super) fn inquire_session(&self, out: &mut Effects<C>) {
        if self.record.state == KeyState::Held
            && let Some(session_ref) = self.record.session_ref()
        {
            out.push(Effect::InquireSession(session_ref.session));
        }
    }

    /// Answers a call that only the session's heartbeat can serve, and returns every other call.
    pub(super) fn refuse_kept(
        &self,
        call: Call<C>,
        env: &Env<'_>,
        out: &mut Effects<C>,
    ) -> Option<Call<C>> {
        let kept = match &call.request {
            Request::Heartbeat(beat) => self.holds(beat.lease_id, env),
            Request::Revoke(revoke) => {
                // A pinned lease does not end, so its session announces nothing.
                let pinned = !self.record.pins.is_empty();
                !revoke.immediately && revoke.floor.is_none() && !pinned
            }
            _ => false,
        };
        match self.record.session_ref() {
            Some(session_ref) if kept && self.record.state == KeyState::Held => {
                out.push(Effect::Reply(
                    call.caller,
                    Answer::KeptBySession(session_ref.session, self.token),
                ));
                None
            }
            _ => Some(call),
        }
    }
}
