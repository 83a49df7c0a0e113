//! What the end of a tenure leaves behind: its fences (R8) and the lock-delay.

use super::{context::Env, draft::Draft, lease::Lease};
use crate::lease::{
    message::Caller,
    primitives::ceil_ms,
    records::{Change, ChangeKind, Fence, KeyState, Record},
    rules::Rules,
};

impl<C: Caller> Lease<C> {
    /// Adds the fences and the lock-delay of a tenure that ended in this way to those that earlier tenures left.
    pub(super) fn write_fences_and_delay(
        &self,
        Draft { record, changes }: &mut Draft,
        kind: ChangeKind,
        unheard: bool,
        env: &Env<'_>,
    ) {
        let Some(ended) = record.previous.as_ref().map(|ended| &ended.tenure) else { return };
        if env.key.is_internal() {
            return settle_state(record);
        }
        let policy = env.context.policies.of(env.key.as_str());
        let own = ended.session_ref.as_ref().and_then(|session_ref| session_ref.lock_delay_ms);
        let rules = env.context.rules;
        let offered = record.offer.is_some();
        let earlier_ms = ceil_ms(self.shut_before.since(env.now));
        let held_ms = rules.a_hold_counts_for(unheard, record.cooling_ms(), earlier_ms);
        let shut_ms = rules
            .a_key_cools_for(kind, policy.lock_delay_ms, own)
            .max(rules.a_minimum_hold_outlasts(kind, offered, held_ms));
        if let Some(plan) = env.context.rules.an_end_is_fenced_by(policy, kind) {
            let fence = Fence {
                token: self.token,
                owner: ended.owner.clone(),
                reason: kind,
                session: ended.session_ref.as_ref().map(|session_ref| session_ref.session),
                when: plan.when,
                on_failure: plan.on_failure,
                timeout_ms: plan.timeout_ms,
                pending: plan.plugins.clone(),
                failed: Box::default(),
            };
            record.fences_and_delay.get_or_insert_default().fences.push(fence);
        }
        let previous = Some((ended.owner.clone(), self.token));
        let session = ended.session_ref.as_ref().map(|session_ref| session_ref.session);
        record.shut_for(shut_ms);
        settle_state(record);
        if record.state == KeyState::Fencing {
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

/// Sets the state of a key whose tenure ended, from the pending fences and the lock-delay that are left.
pub(super) fn settle_state(record: &mut Record) {
    record.state = Rules::a_key_without_a_tenure_is(record);
    record.fences_and_delay.take_if(|left| left.cooling_ms == 0 && left.fences.is_empty());
}
