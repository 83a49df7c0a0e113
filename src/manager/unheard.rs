//! Grants of a call that is still being served. If its caller leaves before the call is answered, they are released.
//!
//! Guarantees: a lease that no answer names, and that no repeated call may ask for, ends at once. It does not wait for
//! its ttl or for the end of its session.

use std::{any::Any, sync::Arc};

use crate::{
    actor::Coordinator,
    lease::{GiveBack, Grant, Heartbeat, Key, Nonce},
};

/// A grant that its caller was not told of.
pub(super) struct Unheard {
    pub key: Key,
    pub grant: Grant,
    /// The call has a request id, so its caller may repeat it.
    marked: bool,
    release: Release,
}

/// Something that is dropped once a grant is released.
type Until = Arc<dyn Any + Send + Sync>;

impl Unheard {
    /// `marked`: the call has a request id, so its caller may ask for the grant again.
    pub fn new(coordinator: &Arc<Coordinator>, key: Key, grant: Grant, marked: bool) -> Self {
        let mut unheard = Self { key, grant, marked, release: Release(None) };
        if !marked {
            unheard.release_when_dropped(coordinator, None);
        }
        unheard
    }

    /// The caller is being told: the grant must not be released any more.
    pub fn heard(self) -> (Key, Grant) {
        let Self { key, grant, mut release, .. } = self;
        release.0 = None;
        (key, grant)
    }

    /// The call is refused: nobody may ask for the grant again, so it is released when this is dropped. `until` is dropped
    /// after that.
    pub fn refused(mut self, coordinator: &Arc<Coordinator>, until: Option<Until>) -> Self {
        self.release_when_dropped(coordinator, until);
        self
    }

    /// The heartbeat by which this node keeps the lease while the call takes others.
    pub fn beat(&self) -> Heartbeat {
        Heartbeat { granter: self.granter(), ..Heartbeat::new(self.grant.lease_id) }
    }

    /// How the grant is given back. `goes_on`: the call that was granted it goes on.
    pub fn back(&self, goes_on: bool) -> GiveBack {
        GiveBack { lease_id: self.grant.lease_id, granter: self.granter(), goes_on }
    }

    /// The incarnation that granted the lease, if the caller may repeat its call.
    fn granter(&self) -> Option<Nonce> {
        self.grant.view.node.filter(|_| self.marked)
    }

    fn release_when_dropped(&mut self, coordinator: &Arc<Coordinator>, until: Option<Until>) {
        let (coordinator, key, back) = (coordinator.clone(), self.key.clone(), self.back(false));
        self.release.0 = Some(Unwanted { coordinator, key, back, until });
    }
}

/// Releases a lease when it is dropped.
struct Release(Option<Unwanted>);

struct Unwanted {
    coordinator: Arc<Coordinator>,
    key: Key,
    back: GiveBack,
    until: Option<Until>,
}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(Unwanted { coordinator, key, back, until }) = self.0.take() {
            coordinator.unheard.give_back(key, back, until);
        }
    }
}
