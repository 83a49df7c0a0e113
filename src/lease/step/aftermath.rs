//! What the end of a tenure leaves behind: its fences (R8) and the lock-delay.

use super::{context::Env, draft::Draft, lease::Lease};
use crate::lease::{
    message::Caller,
    records::{Change, ChangeKind, Fence, State},
    rules::Mutant,
};

impl<C: Caller> Lease<C> {
    /// Adds the fences and the lock-delay of a tenure that ended in this way to those that earlier tenures left.
    pub(super) fn write_aftermath(
        &self,
        Draft { record, changes }: &mut Draft,
        kind: ChangeKind,
        env: &Env<'_>,
    ) {
        let Some(ended) = record.previous.as_ref().map(|ended| &ended.tenure) else { return };
        if env.key.is_session() {
            return record.settle_state();
        }
        let policy = env.terms.policies.of(env.key.as_str());
        let own = ended.bond.as_ref().and_then(|bond| bond.lock_delay_ms);
        let cooling_ms = match kind {
            _ if env.terms.breaks(Mutant::LockDelaySkipped) => 0,
            ChangeKind::Expired => u64::from(policy.lock_delay_ms),
            ChangeKind::SessionEnded => u64::from(own.unwrap_or(policy.lock_delay_ms)),
            _ => 0,
        };
        let willing = matches!(kind, ChangeKind::Released | ChangeKind::Transferred);
        let plan = policy.fence.as_ref().filter(|plan| !willing || plan.on_release);
        let forgotten = env.terms.breaks(Mutant::FenceLost);
        if let Some(plan) = plan.filter(|plan| !forgotten && !plan.plugins.is_empty()) {
            let fence = Fence {
                token: self.token,
                owner: ended.owner.clone(),
                reason: kind,
                session: ended.bond.as_ref().map(|bond| bond.session),
                when: plan.when,
                on_failure: plan.on_failure,
                timeout_ms: plan.timeout_ms,
                pending: plan.plugins.clone(),
                failed: Box::default(),
            };
            record.aftermath.get_or_insert_default().fences.push(fence);
        }
        if cooling_ms > 0 {
            record.aftermath.get_or_insert_default().cooling_ms = cooling_ms;
        }
        let previous = Some((ended.owner.clone(), self.token));
        let session = ended.bond.as_ref().map(|bond| bond.session);
        record.settle_state();
        if record.state == State::Fencing {
            record.seq += 1;
            changes.push(Change {
                kind: ChangeKind::Fencing,
                seq: record.seq,
                owner: None,
                token: self.token,
                previous,
                reason: None,
                actor: None,
                session,
            });
        }
    }
}
