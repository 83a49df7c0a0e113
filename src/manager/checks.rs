//! Checks that are common to several operations.

use std::time::Duration;

use super::{
    Manager,
    error::{CallError, Invalid},
};
use crate::{
    access::Broken,
    actor::pool_view,
    api::limits::{MAX_MIN_HOLD_MS, MAX_REASON_BYTES},
    lease::{Key, Moment, Named, Owner, Policy, TtlBounds, check_seen},
};

/// The longest value of a key, in bytes of UTF-8.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;

/// Checks that a key's value is at most [`MAX_VALUE_BYTES`] long.
pub(crate) fn check_value(value: Option<&str>) -> Result<(), Invalid> {
    match value {
        Some(value) if value.len() > MAX_VALUE_BYTES => Err(Invalid {
            field: "value",
            detail: format!("is {} bytes long; at most {MAX_VALUE_BYTES} are allowed", value.len()),
        }),
        _ => Ok(()),
    }
}

/// Checks that a text is not empty, not longer than `limit`, and has no control characters.
pub(crate) fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), Invalid> {
    let detail = if text.is_empty() {
        "must not be empty".to_owned()
    } else if text.len() > limit {
        format!("is {} bytes long; at most {limit} are allowed", text.len())
    } else if text.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Invalid { field, detail })
}

/// Checks what a holder says of the end of its tenure.
pub(super) fn check_reason(reason: Option<&str>) -> Result<(), Invalid> {
    reason.map_or(Ok(()), |reason| check_text("reason", reason, MAX_REASON_BYTES))
}

/// Checks that a minimum hold is at most [`MAX_MIN_HOLD_MS`].
pub(crate) fn check_min_hold(min_hold_ms: u64) -> Result<(), Invalid> {
    if min_hold_ms <= MAX_MIN_HOLD_MS {
        return Ok(());
    }
    let detail = format!("is {min_hold_ms}; it must be at most {MAX_MIN_HOLD_MS}");
    Err(Invalid { field: "min_hold_ms", detail })
}

/// Checks that every character of a new name is seen. A lease from before this rule is kept, released and revoked.
pub(super) fn check_new(field: &'static str, name: &str) -> Result<(), Invalid> {
    if Broken::NewNamesUnchecked.is_active() {
        return Ok(());
    }
    check_seen(name).map_err(|fault| Invalid { field, detail: fault.to_string() })
}

impl Manager {
    /// Why a key is no lease, if it is none.
    pub(super) fn no_lease(&self, key: &str) -> Option<String> {
        match self.named(key) {
            Named::Lease => None,
            Named::Permits(permits) => Some(format!(
                "names {key:?}, which has {permits} permits: name one of them, such as \"{key}#1\", or acquire {key:?} by \
                 itself or by acquire-all"
            )),
            Named::NoPermit(permits) => {
                Some(format!("names {key:?}, which is no permit: they are #1 to #{permits}"))
            }
        }
    }

    /// Checks that every character of the key is seen, unless the key is there since before this rule.
    pub(super) async fn check_ordered_key(&self, key: &Key) -> Result<(), CallError> {
        match check_new("key", key.as_str()) {
            Err(hidden) if self.coordinator.store.read(key).await?.is_none() => Err(hidden.into()),
            _ => Ok(()),
        }
    }

    /// Checks that every character of the owner is seen, unless a member of the pool has that name.
    pub(super) async fn check_ordered_owner(
        &self,
        pool: &str,
        owner: &Owner,
    ) -> Result<(), CallError> {
        let Err(hidden) = check_new("owner", owner.as_str()) else { return Ok(()) };
        let view = pool_view(&self.coordinator, pool).await;
        let mut members = view.iter().flat_map(|view| &view.members);
        if members.any(|member| member.joined.owner == *owner) {
            Ok(())
        } else {
            Err(hidden.into())
        }
    }

    /// Checks that the key is a lease, where a call found no tenure. Leases from before the key had permits go on.
    pub(super) fn check_lease(&self, key: &str) -> Result<(), Invalid> {
        match self.no_lease(key) {
            Some(detail) => Err(Invalid { field: "key", detail }),
            None => Ok(()),
        }
    }

    /// Checks that the key is a lease, and that a policy names it if the settings require that.
    pub(super) fn check_named(&self, field: &'static str, key: &Key) -> Result<(), Invalid> {
        if let Some(detail) = self.no_lease(key.as_str()) {
            return Err(Invalid { field, detail });
        }
        let strict = self.limits.strict_prefixes && !key.is_session();
        if !strict || !self.coordinator.policy_table().of(key.as_str()).0.prefix.is_empty() {
            return Ok(());
        }
        let detail = format!("{key:?} matches no policy, and limits.strict_prefixes is on");
        Err(Invalid { field, detail })
    }

    /// Checks that a key's policy accepts this ttl.
    pub(super) fn check_ttl(
        &self,
        key: &str,
        field: &'static str,
        ttl_ms: u64,
    ) -> Result<(), Invalid> {
        let table = self.coordinator.policy_table();
        let Policy { ttl, pool, .. } = &**table.of(key).0;
        if ttl.contains(ttl_ms) {
            return Ok(());
        }
        let TtlBounds { min_ms, max_ms } = ttl;
        let detail = format!("is {ttl_ms}; it must be from {min_ms} to {max_ms} in pool {pool}");
        Err(Invalid { field, detail })
    }

    /// Checks how long a caller wants to wait. Returns until when that is, if it waits at all.
    pub(super) fn check_wait(
        &self,
        wait_ms: u64,
        received: Moment,
    ) -> Result<Option<Moment>, Invalid> {
        let wait = Duration::from_millis(wait_ms);
        if wait > self.limits.wait_max {
            let max = self.limits.wait_max.as_millis();
            let detail = format!("is {wait_ms}; it must be at most {max}");
            return Err(Invalid { field: "wait_ms", detail });
        }
        Ok((wait_ms > 0).then_some(received + wait))
    }

    /// Checks that this coordinator grants leases now.
    pub(super) fn check_grants(&self) -> Result<(), CallError> {
        if self.is_draining() {
            return Err(CallError::Draining);
        }
        if self.coordinator.is_frozen() {
            return Err(CallError::Frozen);
        }
        Ok(())
    }
}
