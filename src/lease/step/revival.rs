//! R11: a heartbeat for a tenure that expired revives it.

use super::{acquire::is_lease, context::Env, flight::Flight, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Request},
    records::{Change, ChangeKind, KeyState},
};

impl<C: Caller> Lease<C> {
    /// R11: an expired tenure continues under its token, as long as no other owner took the key and the heartbeat may
    /// revive it.
    pub(super) fn revive_or_refuse(
        &mut self,
        call: Call<C>,
        env: &mut Env<'_>,
        out: &mut Effects<C>,
    ) {
        let Request::Heartbeat(beat) = &call.request else { return };
        let lost = self.lost(beat.lease_id, env);
        let revives =
            beat.may_revive && env.context.rules.a_tenure_may_be_revived(self.record.state, lost);
        let previous = self.record.previous.as_ref();
        let outlived = previous.is_some_and(|ended| Self::is_outlived(ended.tenure.token, env));
        // A tenure goes on when its key is no lease any more, but does not begin again.
        if !revives || outlived || self.is_spent_session(env) || !is_lease(env) {
            out.push(Effect::Reply(call.caller, Answer::Lost(lost)));
            return;
        }
        let mut record = self.successor(env);
        let Some(ended) = record.previous.take() else { return };
        let mut tenure = ended.tenure;
        tenure.ttl_ms = beat.ttl_ms.unwrap_or(tenure.ttl_ms);
        record.state = KeyState::Held;
        record.seq += 1;
        if let Some(value) = &beat.value {
            record.value = Some(value.clone());
        }
        record.cancel_fences(tenure.token);
        let change = Change {
            kind: ChangeKind::Granted,
            seq: record.seq,
            owner: Some(tenure.owner.clone()),
            token: tenure.token,
            previous: Some((tenure.owner.clone(), tenure.token)),
            reason: Some("revived".into()),
            actor: tenure.owner.actor(),
            session: None,
        };
        record.tenure = Some(tenure);
        let flight = Flight::new(record, self.revision, vec![change]).for_call(call);
        self.launch_as_home(flight, env, out);
    }
}
