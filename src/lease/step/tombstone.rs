//! R6: the record of a session that is over, which is never granted again.

use super::{context::Env, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects},
    primitives::Revision,
    rules::Mutant,
};

impl<C: Caller> Lease<C> {
    /// Writes the tombstone of a session that has no record. No such session can be created after that.
    pub(super) fn write_tombstone(
        &mut self,
        call: Call<C>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        if self.revision != Revision::ABSENT {
            let view = Box::new(self.view(env.now));
            out.push(Effect::Reply(call.caller, Answer::Viewed(view)));
            return;
        }
        let nonce = (env.nonces)();
        let record = self.successor(nonce, env);
        let mut flight = Flight::new(record, self.revision, Vec::new());
        flight.cause = Some(call);
        self.launch(flight, out);
    }

    /// Whether this is a session's key that already has a record. A session has one tenure: the key is never granted
    /// again.
    pub(super) fn is_spent_session(&self, env: &Env<'_>) -> bool {
        env.key.is_session()
            && self.revision != Revision::ABSENT
            && !env.terms.breaks(Mutant::SessionRises)
    }
}
