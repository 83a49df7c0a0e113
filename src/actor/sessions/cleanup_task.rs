//! Session cleanup: ends the leases of ended sessions, and finally removes the records of sessions that are over.
//!
//! Guarantees: a session's record is removed only when it has been a tombstone for a while and no lease of the session
//! is known.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};

use super::{
    leases::{leases_of, tell_over},
    service::SessionService,
};
use crate::{
    clock::HashMap,
    lease::{Cleanup, CleanupEffect, Key, KeyState, Nonce, SessionOver},
    store::{Found, StoreError, retention},
};

/// The number of sessions whose leases are searched for at once.
const AT_ONCE: usize = 16;
/// How often the sessions that are due are searched for.
const ROUND: Duration = Duration::from_millis(500);

/// Runs for as long as the process.
pub async fn clean_up(service: &Arc<SessionService>) {
    let mut cleanup = SessionCleanup { service, retention: retention(), dead: HashMap::default() };
    loop {
        tokio::select! {
            biased;
            () = service.sessions.ended.filled() => {}
            () = tokio::time::sleep(ROUND), if !cleanup.dead.is_empty() => {}
        }
        cleanup.round().await;
    }
}

struct SessionCleanup<'a> {
    service: &'a SessionService,
    retention: Duration,
    dead: HashMap<Nonce, Cleanup>,
}

impl SessionCleanup<'_> {
    async fn round(&mut self) {
        self.take_news().await;
        if !self.service.sessions.index.are_whole() {
            return;
        }
        for (digest, left) in self.search_due().await {
            self.searched(digest, left).await;
        }
    }

    /// Tells the known leases of sessions that ended.
    async fn take_news(&mut self) {
        let sessions = &self.service.sessions;
        for over in sessions.ended.take() {
            let digest = over.session;
            if self.dead.get(&digest).is_some_and(|cleanup| !cleanup.is_bare()) {
                continue;
            }
            let now = self.service.environment.clock.now();
            tell_over(self.service, sessions.index.of(digest), &over).await;
            let cleanup = Cleanup::new(over, now, sessions.index.are_whole(), self.retention);
            self.dead.insert(digest, cleanup);
        }
    }

    /// Searches for the leases of the sessions that are due.
    async fn search_due(&self) -> Vec<(Nonce, Result<Option<bool>, StoreError>)> {
        let now = self.service.environment.clock.now();
        let due = self.dead.values().filter(|cleanup| cleanup.is_due(now));
        let due: Vec<_> = due.map(|cleanup| cleanup.over.clone()).collect();
        let service = self.service;
        let search = async |over: SessionOver| (over.session, search(service, &over).await);
        stream::iter(due.into_iter().map(search)).buffer_unordered(AT_ONCE).collect().await
    }

    /// Handles the result of a search for the leases of a session: whether some are left.
    async fn searched(&mut self, digest: Nonce, left: Result<Option<bool>, StoreError>) {
        let Some(cleanup) = self.dead.get_mut(&digest) else { return };
        let now = self.service.environment.clock.now();
        let left = match left {
            Ok(Some(left)) => left,
            // The next round searches again.
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(session = %digest, %error, "cannot search for the leases of a session; retrying");
                return cleanup.failed(now);
            }
        };
        match cleanup.searched(left, now) {
            CleanupEffect::Wait => {}
            CleanupEffect::Forget => self.service.sessions.forget(digest),
            CleanupEffect::Remove => {
                if self.remove(digest).await {
                    self.dead.remove(&digest);
                } else if let Some(cleanup) = self.dead.get_mut(&digest) {
                    cleanup.stays(now);
                }
            }
        }
    }

    /// Removes the record of a session that no lease names any more. Returns whether it is gone.
    async fn remove(&self, digest: Nonce) -> bool {
        let (store, key) = (&self.service.environment.store, Key::of_session(digest));
        match store.read(&key).await {
            Ok(None) => true,
            Ok(Some(Found { revision, record: Ok(record) })) if record.state == KeyState::Free => {
                let gone = store.forget(&key, revision).await;
                gone.inspect_err(
                    |error| tracing::debug!(%error, "cannot remove a session's record"),
                )
                .unwrap_or(false)
            }
            _ => false,
        }
    }
}

/// Tells the remaining leases of an ended session. Returns whether there are any, or `None` if that is not known
/// because changes were missed meanwhile.
async fn search(service: &SessionService, over: &SessionOver) -> Result<Option<bool>, StoreError> {
    let index = &service.sessions.index;
    let Some(whole) = index.whole_since() else { return Ok(None) };
    let left = leases_of(service, over.session).await?.into_iter();
    let left: Vec<Key> = left.map(|(key, _)| key).collect();
    let any = !left.is_empty();
    tell_over(service, left, over).await;
    Ok((any || index.whole_since() == Some(whole)).then_some(any))
}
