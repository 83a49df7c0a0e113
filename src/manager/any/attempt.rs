//! Tries keys in their order, several at a time.

use futures_util::future::join_all;

use super::call::AnyCall;
use crate::{
    actor::Places,
    lease::{Acquire, Key},
    manager::{
        availability::Availability,
        error::{AcquireError, CallError},
        inspect::VIEWS_AT_ONCE,
        new_keys,
        unheard::Unheard,
    },
};

/// How many keys are tried before the records of further keys are read many at a time. Often the first key is free.
const ALONE: usize = 8;

/// What the refusal of a key may be based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::manager) enum Basis {
    /// What this node remembers.
    Memory,
    /// What the store says.
    Store,
}

/// The result of trying some keys.
pub(in crate::manager) struct Tried {
    pub grants: Vec<Unheard>,
    pub counts: Availability,
    /// What kept a key from answering.
    pub failure: Option<CallError>,
    /// The error for which the call must not go on.
    pub end: Option<AcquireError>,
}

impl Tried {
    fn none_of(keys: &[Key]) -> Self {
        let counts = Availability { keys: keys.len(), ..Availability::default() };
        Self { grants: Vec::new(), counts, failure: None, end: None }
    }

    /// Adds what came of further keys.
    pub fn join(&mut self, further: Self) {
        self.grants.extend(further.grants);
        self.counts = self.counts.and(further.counts);
        self.failure = self.failure.take().or(further.failure);
    }

    /// Requires that the call may go on. Otherwise its grants are released, unless a repeated call may ask for them.
    pub fn unless_ended(self) -> Result<Self, AcquireError> {
        match self.end {
            None => Ok(self),
            Some(error) => Err(error),
        }
    }

    /// Adds the result for one key. An error that other keys would repeat ends the call.
    fn add(&mut self, result: Result<Unheard, AcquireError>) {
        match result {
            Ok(unheard) => self.grants.push(unheard),
            Err(AcquireError::Refused(why, Some(view))) => self.counts.add(why, &view),
            Err(AcquireError::Call(error)) if !matches!(error, CallError::Invalid(_)) => {
                let unknown = self.failure.take().filter(CallError::is_outcome_unknown);
                self.failure = unknown.or(Some(error));
            }
            Err(error) => self.end = self.end.take().or(Some(error)),
        }
    }
}

impl AnyCall<'_> {
    /// Tries the keys in their order, until the requested number is granted, or as many as the principal's limit leaves.
    pub async fn try_each(
        &self,
        keys: &[Key],
        count: usize,
        basis: Basis,
    ) -> Result<Tried, AcquireError> {
        self.try_to_the_end(keys, count, basis).await?.unless_ended()
    }

    /// The same. What was granted before an error that ends the call is there, for a caller that gives it back.
    pub async fn try_to_the_end(
        &self,
        keys: &[Key],
        count: usize,
        basis: Basis,
    ) -> Result<Tried, AcquireError> {
        let mut tried = Tried::none_of(keys);
        if keys.is_empty() || count == 0 {
            return Ok(tried);
        }
        let wanted = count.min(keys.len());
        let places = self.manager.claims(&self.any.owner, wanted)?;
        let count = places.of(wanted);
        let (mut at, mut woken) = (0, ALONE);
        while tried.grants.len() < count && at < keys.len() {
            if self.manager.node.is_some() && at >= woken {
                woken = keys.len().min(at + VIEWS_AT_ONCE);
                self.wake(&keys[at..woken]).await;
            }
            let width = self.manager.at_once().min(count - tried.grants.len());
            let wave = &keys[at..keys.len().min(at + width)];
            at += wave.len();
            for result in join_all(wave.iter().map(|key| self.attempt(key, basis, &places))).await {
                tried.add(result);
            }
            self.check_unknown(&mut tried);
            if tried.end.is_some() {
                break;
            }
        }
        Ok(tried)
    }

    async fn attempt(
        &self,
        key: &Key,
        basis: Basis,
        places: &Places,
    ) -> Result<Unheard, AcquireError> {
        let allow_stale = basis == Basis::Memory;
        let choice = places.choose(key);
        let new = self.manager.new_key(&self.any.owner, key).await?;
        let granted = self.acquire(key, Acquire { allow_stale, ..self.request(key) }).await;
        new_keys::end(new, &granted);
        choice.end(granted.as_ref().ok().map(|unheard| unheard.grant.view.token));
        granted
    }

    /// A grant of unknown outcome may exist under the request id, and a repeated call is told of it. Another key in its
    /// place would be one grant too many, of which no caller is told.
    fn check_unknown(&self, tried: &mut Tried) {
        let protocol = &self.manager.coordinator.protocol;
        if !protocol.an_unknown_grant_stops_acquire_any(self.any.mark.is_some()) {
            return;
        }
        if let Some(unknown) = tried.failure.take_if(|failure| failure.is_outcome_unknown()) {
            tried.end.get_or_insert(unknown.into());
        }
    }

    /// Makes the actors of these keys read their records, all at once.
    async fn wake(&self, keys: &[Key]) {
        let manager = self.manager;
        let asleep = keys.iter().filter(|key| !manager.coordinator.registry.contains(key.as_str()));
        join_all(asleep.map(|key| manager.ask_view(key))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lease::StoreError, manager::error::Invalid};

    #[test]
    fn an_unknown_outcome_outlasts_later_errors() {
        let mut tried = Tried::none_of(&[]);
        let unknown = CallError::Store(StoreError::Unavailable("no answer".into()));
        for error in [CallError::Busy, unknown.clone(), CallError::Crowded] {
            tried.add(Err(error.into()));
        }
        assert_eq!((tried.failure, tried.end), (Some(unknown), None));
    }

    #[test]
    fn an_argument_that_is_invalid_for_one_key_ends_the_call() {
        let invalid = Invalid { field: "key", detail: "matches no policy".into() };
        let mut tried = Tried::none_of(&[]);
        tried.add(Err(invalid.clone().into()));
        assert_eq!((&tried.failure, &tried.end), (&None, &Some(invalid.clone().into())));
        assert_eq!(tried.unless_ended().err(), Some(invalid.into()));
    }
}
