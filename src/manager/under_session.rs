//! R6: a call for leases that a session keeps.
//!
//! Guarantees: the session absorbs a heartbeat before a grant is written, and another one before the caller is told. The
//! caller is not told of a lease that was revoked meanwhile.

use std::{pin::Pin, sync::Arc};

use super::{
    Manager,
    error::{CallError, SessionError},
};
use crate::{
    actor::{Asked, Session},
    lease::{Key, SessionId, SessionRef, SessionSpec, Token},
};

/// A call that is served under a session.
pub(super) struct UnderSession<'a> {
    manager: &'a Manager,
    id: SessionId,
    asked: Asked,
    session: Arc<Session>,
}

impl Drop for UnderSession<'_> {
    fn drop(&mut self) {
        self.session.call_ends();
    }
}

impl Manager {
    /// Begins a call under a session. Counts as a heartbeat of the session.
    pub(super) async fn call_under(
        &self,
        id: SessionId,
        asked: Asked,
    ) -> Result<UnderSession<'_>, SessionError> {
        let known = self.coordinator.sessions.get(id.digest);
        let heard = self.coordinator.protocol.a_session_is_heard_before_a_grant();
        let session = match known.filter(|_| !heard) {
            Some(known) => known,
            None => self.beat(id, asked).await?.0,
        };
        session.call_begins();
        Ok(UnderSession { manager: self, id, asked, session })
    }
}

impl UnderSession<'_> {
    /// How a lease names the session that keeps it.
    pub fn session_ref(&self) -> SessionRef {
        let SessionSpec { behavior, lock_delay_ms, .. } = self.session.spec;
        SessionRef { session: self.session.digest, lock_delay_ms, behavior }
    }

    /// How long a heartbeat keeps the leases, in milliseconds.
    pub fn ttl_ms(&self) -> u64 {
        self.session.ttl_ms
    }

    /// What a call takes, unless the session ends first.
    pub async fn unless_over<T, E: From<SessionError>>(
        &self,
        taking: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E> {
        tokio::select! {
            biased;
            taken = taking => taken,
            error = self.manager.session_ends(self.id) => Err(error.into()),
        }
    }

    /// The promise for the grants of this call, which are those of `keys` and durable, in milliseconds. Counts as a
    /// heartbeat of the session. It does not cover what [`Self::is_lost`] names.
    pub async fn promise(&self, keys: impl FnOnce() -> Vec<Key>) -> Result<u64, SessionError> {
        self.beat_again().await.inspect_err(|_| {
            // The session's leases may have been searched for before these grants landed.
            self.manager.coordinator.sessions.inquire(self.session.digest, keys());
        })
    }

    async fn beat_again(&self) -> Result<u64, SessionError> {
        let (session, valid_for_ms) = self.manager.beat(self.id, self.asked).await?;
        if !Arc::ptr_eq(&session, &self.session) {
            // The session had another home node meanwhile, so leases may have ended unseen.
            return Err(CallError::IndexingSession.into());
        }
        Ok(valid_for_ms)
    }

    /// Whether a tenure that was granted to this call was revoked meanwhile.
    pub fn is_lost(&self, key: &Key, token: Token) -> bool {
        self.session.is_lost(self.manager.coordinator.protocol, key, token)
    }
}
