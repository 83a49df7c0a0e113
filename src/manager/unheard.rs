//! Grants of a call that is still being served. If its caller leaves before the call is answered, they are released.
//!
//! Guarantees: a lease that no answer names, and that no repeated call may ask for, ends at once. It does not wait for
//! its ttl or for the end of its session.

use std::{any::Any, sync::Arc};

use crate::{
    actor::Coordinator,
    lease::{Grant, Key, LeaseId},
};

/// A grant that its caller was not told of.
pub(super) struct Unheard {
    pub key: Key,
    pub grant: Grant,
    back: GiveBack,
}

/// Something that is dropped once a grant is released.
type Until = Arc<dyn Any + Send + Sync>;

impl Unheard {
    /// `marked`: the call has a request id, so its caller may ask for the grant again.
    pub fn new(coordinator: &Arc<Coordinator>, key: Key, grant: Grant, marked: bool) -> Self {
        let back = GiveBack((!marked).then(|| Unwanted::of(coordinator, &key, &grant, None)));
        Self { key, grant, back }
    }

    /// The caller is being told: the grant must not be released any more.
    pub fn heard(self) -> (Key, Grant) {
        let Self { key, grant, mut back } = self;
        back.0 = None;
        (key, grant)
    }

    /// The call is refused: nobody may ask for the grant again, so it is released when this is dropped. `until` is dropped
    /// after that.
    pub fn refused(self, coordinator: &Arc<Coordinator>, until: Option<Until>) -> Self {
        let (key, grant) = self.heard();
        let back = GiveBack(Some(Unwanted::of(coordinator, &key, &grant, until)));
        Self { key, grant, back }
    }
}

/// Releases a lease when it is dropped.
struct GiveBack(Option<Unwanted>);

struct Unwanted {
    coordinator: Arc<Coordinator>,
    key: Key,
    lease_id: LeaseId,
    until: Option<Until>,
}

impl Unwanted {
    fn of(coordinator: &Arc<Coordinator>, key: &Key, grant: &Grant, until: Option<Until>) -> Self {
        let (coordinator, key) = (coordinator.clone(), key.clone());
        Self { coordinator, key, lease_id: grant.lease_id, until }
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let Some(Unwanted { coordinator, key, lease_id, until }) = self.0.take() else { return };
        match until {
            Some(until) => coordinator.unheard.give_back_until(key, lease_id, until),
            None => coordinator.unheard.give_back(key, lease_id),
        }
    }
}
