//! R6: the record of a session that is over, which is never granted again.

use super::{context::Env, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects},
    primitives::Revision,
};

impl<C: Caller> Lease<C> {
    /// Writes the tombstone of a session that has no record. No such session can be created after that.
    pub(super) fn write_missing_tombstone(
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
        let record = self.successor(env);
        let flight = Flight::new(record, self.revision, Vec::new()).for_call(call);
        self.launch(flight, out);
    }

    /// Whether this is a session's key that was granted once.
    pub(super) fn is_spent_session(&self, env: &Env<'_>) -> bool {
        env.context.rules.a_sessions_key_is_spent(env.key, self.revision != Revision::ABSENT)
    }
}
