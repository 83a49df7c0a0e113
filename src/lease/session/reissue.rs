//! The revocation of a lease that a session keeps, reissued.

use crate::lease::{
    message::Revoke,
    primitives::{Nonce, Revision},
    records::Record,
};

impl Record {
    /// The revocation of a lease that this session keeps, as the session's current home node reissues it. The home node
    /// announces it first, and the end waits for what this node promised before.
    #[must_use]
    pub fn order_anew(&self, revision: Revision, session: Nonce) -> Option<Revoke> {
        let kept = self.session_ref().is_some_and(|session_ref| session_ref.session == session);
        let order = self.revocation.as_ref().filter(|_| kept)?;
        Some(Revoke {
            reason: order.reason.clone(),
            actor: order.actor.clone(),
            immediately: false,
            owner: None,
            // The revocation does not apply to the next tenure.
            token: Some(self.token(revision)),
            floor: None,
        })
    }
}
