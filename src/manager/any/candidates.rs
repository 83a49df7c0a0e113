//! The keys among which a call chooses.

use std::time::Duration;

use super::{
    call::AnyCall,
    request::{Candidates, Count, MAX_CANDIDATES},
};
use crate::manager::checks::check_new;
use crate::{
    clock::HashSet,
    lease::{Key, KeyState, Record},
    manager::error::{CallError, Invalid},
    store::{Committed, Feed, FeedBatch},
};

/// If there are more candidates than are tried at a time, the search for free keys goes on until it has found this many
/// more than the requested count: other callers may take some of them meanwhile.
const SPARE: usize = 1_000;
/// If there are more candidates than a caller can wait for, how long it waits before it searches for free keys again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct Resolved {
    pub keys: Vec<Key>,
    /// The changes since just before the candidates were listed, if there are more than are tried at a time.
    pub others: Option<Feed>,
}

impl AnyCall<'_> {
    /// Lists the candidates, and checks the keys that the call names.
    pub(super) async fn resolve(&self) -> Result<Resolved, CallError> {
        let feed = self.manager.coordinator.store.feed();
        let (keys, cut) = match &self.any.candidates {
            Candidates::Keys(keys) => {
                self.check_keys(keys)?;
                (keys.clone(), false)
            }
            Candidates::Prefix(prefix) => self.found((None, prefix)).await?,
            Candidates::Pool(pool) => {
                self.manager.check_pool(pool)?;
                self.found((Some(pool), "")).await?
            }
        };
        if keys.len() > MAX_CANDIDATES {
            let detail = format!("names {} keys; at most {MAX_CANDIDATES} are allowed", keys.len());
            return Err(Invalid { field: "keys", detail }.into());
        }
        Ok(Resolved { keys, others: cut.then_some(feed) })
    }

    /// Lists the candidates after the policies may have changed. Keys that the call names and that are no leases any more
    /// are left out, unless none is left.
    pub(super) async fn resolve_again(&self) -> Result<Resolved, CallError> {
        let Candidates::Keys(named) = &self.any.candidates else { return self.resolve().await };
        let is_lease = |key: &&Key| self.manager.check_named("keys", key).is_ok();
        let keys: Vec<Key> = named.iter().filter(is_lease).cloned().collect();
        if keys.is_empty() {
            self.check_keys(named)?;
        }
        Ok(Resolved { keys, others: None })
    }

    /// Checks that a call names each key once, and only keys that a policy allows.
    fn check_keys(&self, keys: &[Key]) -> Result<(), Invalid> {
        let mut seen = HashSet::default();
        if let Some(twice) = keys.iter().find(|key| !seen.insert(key.as_str())) {
            let detail = format!("names {twice:?} twice");
            return Err(Invalid { field: "keys", detail });
        }
        keys.iter().try_for_each(|key| {
            check_new("keys", key.as_str())?;
            self.manager.check_named("keys", key)
        })
    }

    async fn found(&self, place: (Option<&str>, &str)) -> Result<(Vec<Key>, bool), CallError> {
        let count = if let Count::UpTo(count) = self.any.count { count } else { MAX_CANDIDATES };
        let wanted = |record: &Record| {
            let marked = |(id, _)| record.request_marks.iter().any(|mark| mark.id == id);
            record.state == KeyState::Free || self.any.mark.is_some_and(marked)
        };
        let keys = self.manager.keys_of(place, MAX_CANDIDATES, count + SPARE, wanted, self.looks);
        Ok(keys.await?)
    }

    /// Checks that the policy of each key accepts the ttl. Without keys, the policy of the prefix must.
    pub fn check_ttls(&self, keys: &[Key]) -> Result<(), Invalid> {
        let check = |key: &str| self.manager.check_ttl(key, "ttl_ms", self.ttl_ms);
        match &self.any.candidates {
            Candidates::Prefix(prefix) if keys.is_empty() => check(prefix),
            _ => keys.iter().try_for_each(|key| check(key.as_str())),
        }
    }

    /// Resolves when a candidate outside `tried` may have become free.
    pub async fn others_freed(&self, tried: &[Key], feed: Option<Feed>) {
        let Some(mut feed) = feed else { return std::future::pending().await };
        let tried: HashSet<&Key> = tried.iter().collect();
        tokio::time::sleep(LOOK_AGAIN).await;
        let freed = |one: &Committed| {
            self.matches(&one.key) && one.change.kind.may_open() && !tried.contains(&one.key)
        };
        while let Ok(FeedBatch::Changes(batch)) = feed.recv().await {
            if batch.iter().any(freed) {
                return;
            }
        }
    }

    /// Whether a key has the prefix or belongs to the pool that the call names.
    fn matches(&self, key: &Key) -> bool {
        match &self.any.candidates {
            Candidates::Keys(_) => false,
            Candidates::Prefix(prefix) => key.as_str().starts_with(prefix.as_str()),
            Candidates::Pool(pool) => self.manager.is_in_pool(key.as_str(), pool),
        }
    }
}
