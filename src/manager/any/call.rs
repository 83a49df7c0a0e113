//! A call of acquire-any while it is being served: its inputs, which were checked once.

use std::sync::Arc;

use super::request::AcquireAny;
use crate::manager::checks::check_new;
use crate::{
    lease::{Acquire, Grant, Key, Moment, SessionRef},
    manager::{
        Manager,
        error::{AcquireError, CallError},
        looks::{Looks, UNCOUNTED},
        unheard::Unheard,
    },
};

pub(in crate::manager) struct AnyCall<'a> {
    pub manager: &'a Manager,
    pub any: &'a AcquireAny,
    /// Milliseconds that a grant keeps each lease.
    pub ttl_ms: u64,
    /// The session that keeps the leases.
    pub session_ref: Option<SessionRef>,
    /// Until when the caller waits, if it does.
    pub wait_until: Option<Moment>,
    pub received: Moment,
    /// From when the caller waits, if that was before the request arrived.
    pub since: Moment,
    /// A new value for each key.
    pub value: Option<&'a str>,
    /// For how long from its grant nobody else is granted each key, in milliseconds.
    pub min_hold_ms: u64,
    /// The keys must be permits when they are granted.
    pub permit: bool,
    /// The pool that the keys must belong to when they are granted.
    pub pool: Option<Arc<str>>,
    /// The call takes keys back that its owner held last, or still holds.
    pub reclaims: bool,
    /// Counts the records that the search for candidates looks at.
    pub looks: Looks<'a>,
}

impl<'a> AnyCall<'a> {
    /// A call whose request is valid, at a coordinator that grants leases now.
    pub fn checked(
        manager: &'a Manager,
        any: &'a AcquireAny,
        received: Moment,
    ) -> Result<Self, CallError> {
        any.count.check()?;
        check_new("owner", any.owner.as_str())?;
        let wait_until = manager.check_wait(any.wait_ms, received)?;
        manager.check_grants()?;
        Ok(Self { wait_until, ..Self::new(manager, any, received) })
    }

    /// A call that does not wait, for leases that are kept by their own heartbeats.
    pub fn new(manager: &'a Manager, any: &'a AcquireAny, received: Moment) -> Self {
        Self {
            manager,
            any,
            ttl_ms: any.ttl_ms,
            session_ref: None,
            wait_until: None,
            received,
            since: Moment::NEVER,
            value: None,
            min_hold_ms: 0,
            permit: false,
            pool: any.candidates.pool().map(Into::into),
            reclaims: false,
            looks: UNCOUNTED,
        }
    }

    /// The same call, for leases that a session keeps.
    pub fn under(self, session_ref: SessionRef, ttl_ms: u64) -> Self {
        Self { session_ref: Some(session_ref), ttl_ms, ..self }
    }

    /// The same call, which takes keys back and does not wait.
    pub fn reclaiming(&self) -> Self {
        Self { wait_until: None, reclaims: true, pool: self.pool.clone(), ..*self }
    }

    /// The same call, for keys of this pool.
    pub fn of_pool(&self, pool: Arc<str>) -> Self {
        Self { pool: Some(pool), ..*self }
    }

    /// The same call, for permits.
    pub fn for_permits(&self) -> Self {
        Self { permit: true, pool: self.pool.clone(), ..*self }
    }

    /// The request for one of the keys.
    pub fn request(&self, key: &Key) -> Acquire {
        Acquire {
            allow_stale: true,
            value: self.value.map(Into::into),
            min_hold_ms: self.min_hold_ms,
            mark: self.any.mark,
            since: self.since,
            session_ref: self.session_ref,
            reclaim: self.reclaims,
            permit: self.permit || self.manager.has_permits(key),
            pool: self.pool.clone(),
            ..self.manager.request(&self.any.owner, self.ttl_ms)
        }
    }

    /// Acquires one of the keys.
    pub async fn acquire(&self, key: &Key, acquire: Acquire) -> Result<Unheard, AcquireError> {
        let asked = self.received.into();
        let granted = async {
            self.manager.check_named("key", key)?;
            self.manager.own(key, acquire, asked).await
        }
        .await;
        self.manager.count(key, asked, &granted);
        Ok(self.unheard(key, granted?))
    }

    /// A grant that the caller is told of once the whole call is served.
    pub fn unheard(&self, key: &Key, grant: Grant) -> Unheard {
        Unheard::new(&self.manager.coordinator, key.clone(), grant, self.any.mark.is_some())
    }
}
