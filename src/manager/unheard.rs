//! Grants of a call that is still being served. If its caller leaves before the call is answered, they are released.
//!
//! Guarantees: a lease that no answer names, and that no repeated call may ask for, ends at once. It does not wait for
//! its ttl or for the end of its session.

use std::sync::Arc;

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

impl Unheard {
    /// `marked`: the call has a request id, so its caller may ask for the grant again.
    pub fn new(coordinator: &Arc<Coordinator>, key: Key, grant: Grant, marked: bool) -> Self {
        let proof = (!marked).then(|| (coordinator.clone(), key.clone(), grant.lease_id));
        Self { key, grant, back: GiveBack(proof) }
    }

    /// The caller is being told: the grant must not be released any more.
    pub fn heard(self) -> (Key, Grant) {
        let Self { key, grant, mut back } = self;
        back.0 = None;
        (key, grant)
    }
}

/// Releases a lease when it is dropped.
struct GiveBack(Option<(Arc<Coordinator>, Key, LeaseId)>);

impl Drop for GiveBack {
    fn drop(&mut self) {
        if let Some((coordinator, key, lease_id)) = self.0.take() {
            coordinator.unheard.give_back(key, lease_id);
        }
    }
}
