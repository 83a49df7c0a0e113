//! Forgets a key: a free key is marked as forgotten, and its record is removed once no write that was sent before can
//! land.

use super::{context::Env, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Request},
    primitives::Revision,
    records::{Change, ChangeKind, KeyState},
};

impl<C: Caller> Lease<C> {
    /// Whether the key holds nothing that may still be needed: no owner, fence, pin or offer, and no waiting caller.
    fn is_forgettable(&self) -> bool {
        let record = &self.record;
        let clean =
            record.fences_and_delay.is_none() && record.offer.is_none() && record.pins.is_empty();
        record.state == KeyState::Free && clean && self.waiters_present() == 0
    }

    /// Marks the key as forgotten. Its value and request ids are removed at once, its record later.
    pub(super) fn forget(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Forget(reason, actor) = &call.request else { return };
        if self.revision == Revision::ABSENT || !self.is_forgettable() {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::NotForgotten(view)));
            return;
        }
        if !self.may_grant(env) {
            let answer = if self.is_frozen(env) { Answer::Frozen } else { Answer::Lapsed };
            out.push(Effect::Reply(call.caller, answer));
            return;
        }
        let mut record = self.successor(env);
        (record.value, record.request_marks) = (None, Box::default());
        record.seq += 1;
        let change = Change {
            kind: ChangeKind::Forgotten,
            seq: record.seq,
            owner: None,
            token: self.token,
            previous: None,
            reason: Some(reason.clone()),
            actor: Some(actor.clone()),
            session: None,
        };
        let flight = Flight::new(record, self.revision, vec![change]).for_call(call);
        self.launch(flight, out);
    }
}
