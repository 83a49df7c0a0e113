//! A holder that is asked to hand its lease over. Its tenure goes on until it consents or the tenure is revoked.
//!
//! The request is a change of the record, so that it survives a crash and reaches every node. It ends no promise. When
//! the holder has not handed over by the deadline, the shell revokes the tenure as an administrator would.

use super::{context::Env, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, AskHandover, Call, Caller, Effect, Effects, Request},
    records::{Change, ChangeKind, Handover, KeyState},
};

impl<C: Caller> Lease<C> {
    /// The request that applies. A revoked tenure is not asked for anything any more.
    #[must_use]
    pub fn handover(&self) -> Option<&Handover> {
        let standing = self.record.state == KeyState::Held && self.record.revocation.is_none();
        self.record.handover.as_deref().filter(|_| standing)
    }

    /// Asks the holder to hand over. Asking twice has the same effect as asking once.
    pub(super) fn ask_handover(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::AskHandover(ask) = &call.request else { return };
        let view = || Box::new(self.view(env.now));
        let Some(tenure) = &self.record.tenure else {
            out.push(Effect::Reply(call.caller, Answer::NotHeld(view())));
            return;
        };
        if self.record.handover.is_some() || self.record.revocation.is_some() {
            out.push(Effect::Reply(call.caller, Answer::Done(view())));
            return;
        }
        let AskHandover { reason, actor, timeout_ms } = (**ask).clone();
        let owner = tenure.owner.clone();
        let mut record = self.successor(env);
        record.seq += 1;
        let change = Change {
            kind: ChangeKind::HandoverRequested,
            seq: record.seq,
            owner: Some(owner),
            token: self.token,
            previous: None,
            reason: Some(reason.clone()),
            actor: Some(actor.clone()),
            session: self.record.session_ref().map(|session_ref| session_ref.session),
        };
        record.handover = Some(Box::new(Handover { reason, actor, span_ms: timeout_ms }));
        let flight = Flight::new(record, self.revision, vec![change]).for_call(call);
        self.launch_as_home(flight, env, out);
    }
}
