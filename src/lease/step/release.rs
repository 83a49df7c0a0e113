//! The holder gives the lease back.

use super::{context::Env, draft::End, lease::Lease};
use crate::lease::{
    message::{Answer, Call, Caller, Effect, Effects, Lost, Request},
    records::ChangeKind,
};

impl<C: Caller> Lease<C> {
    pub(super) fn release(&mut self, call: Call<C>, env: &mut Env<'_>, out: &mut Effects<C>) {
        let Request::Release(release) = &call.request else { return };
        if self.holds(release.lease_id, env) {
            let value = release.value.clone();
            let end = End { value, ..End::of(ChangeKind::Released) };
            return self.end(end, Some(call), env, out);
        }
        let gone = self.lost(release.lease_id, env) != Lost::UnknownLease;
        let answer = if gone || self.record.tenure.is_none() {
            Answer::Released(false)
        } else {
            Answer::NotHolder(Box::new(self.view(env.now)))
        };
        out.push(Effect::Reply(call.caller, answer));
    }
}
