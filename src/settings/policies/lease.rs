//! The policies as the protocol needs them.

use std::{sync::Arc, time::Duration};

use super::{super::sections::Limits, policy::Policy};
use crate::lease::{self, FencePlan, LabelRule, MAX_LOCK_DELAY_MS, PlaceRule, Policies, TtlBounds};

/// The policies of all keys. Keys without a policy have the bounds of `[limits]`.
pub(in crate::settings) fn to_lease(policies: &[Policy], limits: &Limits) -> Policies {
    let convert = |policy: &Policy| lease::Policy {
        prefix: policy.prefix.as_str().into(),
        pool: policy.pool.as_str().into(),
        ttl: bounds(policy.ttls(limits)),
        lock_delay_ms: u32::try_from(policy.lock_delay.as_millis()).unwrap_or(MAX_LOCK_DELAY_MS),
        fence: fence_plan(policy),
        balance: policy.balance,
        tolerance: policy.tolerance,
        place: place_rule(policy),
        handover_timeout_ms: millis(policy.handover_timeout),
        warmup_timeout_ms: millis(policy.warmup_timeout),
        warmups: policy.warmups,
        rejoin_window_ms: u32::try_from(policy.rejoin_window.as_millis()).unwrap_or(u32::MAX),
        mixed_versions_ms: millis(policy.mixed_versions),
        mass_failure_within_ms: millis(policy.mass_failure_within),
        mass_failure_percent: policy.mass_failure_percent,
        keys: policy.keys,
        permits: policy.permits,
    };
    let otherwise =
        lease::Policy { ttl: bounds([limits.ttl_min, limits.ttl_max]), ..Default::default() };
    Policies::new(policies.iter().map(convert).collect(), otherwise)
}

/// What cannot be read is a fault, and no policy of faulty settings takes effect.
fn place_rule(policy: &Policy) -> PlaceRule {
    let read =
        |rules: &[String]| rules.iter().filter_map(|rule| LabelRule::parse(rule).ok()).collect();
    PlaceRule {
        require: read(&policy.require),
        prefer: read(&policy.prefer),
        spread: Some(policy.spread.as_str()).filter(|name| !name.is_empty()).map(Into::into),
    }
}

fn fence_plan(policy: &Policy) -> Option<Arc<FencePlan>> {
    let plan = FencePlan {
        plugins: policy.fence.iter().map(|name| name.as_str().into()).collect(),
        when: policy.fence_when,
        timeout_ms: millis(policy.fence_timeout),
        on_failure: policy.on_fence_failure,
        on_release: policy.fence_on_release,
    };
    (!plan.plugins.is_empty()).then(|| Arc::new(plan))
}

fn bounds([min, max]: [Duration; 2]) -> TtlBounds {
    TtlBounds { min_ms: millis(min), max_ms: millis(max) }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
