//! Acquires one key.

use std::pin::pin;

use super::{
    Manager,
    checks::{check_min_hold, check_new, check_value},
    error::{AcquireError, CallError},
    kept_places::Stay,
    new_keys,
    unheard::Unheard,
    waiting::Waiting,
};
use crate::{
    actor::Asked,
    lease::{
        Acquire, Answer, ChangeKind, Grant, Key, Moment, Named, Owner, Refusal, Request, SessionId,
        SessionRef,
    },
    telemetry::AcquireOutcome,
};

/// A request to own one key.
#[derive(Clone, Debug)]
pub struct AcquireOne {
    /// The key to acquire, whether or not it has a record yet.
    pub key: Key,
    /// The owner that acquires it.
    pub owner: Owner,
    /// Milliseconds that a grant or heartbeat keeps the lease.
    pub ttl_ms: u64,
    /// A new value for the key.
    pub value: Option<Box<str>>,
    /// Take the key even if the same owner already holds it.
    pub reclaim: bool,
    /// Permit an answer from this node's memory, without a read of the store.
    pub allow_stale: bool,
    /// How long to wait in the queue, in milliseconds.
    pub wait_ms: u64,
    /// Digests of the request id and of the rest of the request.
    pub mark: Option<(u128, u64)>,
    /// The session that keeps the lease. The session's ttl then replaces `ttl_ms`.
    pub session: Option<SessionId>,
    /// For how long from the grant nobody else is granted the key, in milliseconds, even if the lease is released.
    pub min_hold_ms: u64,
}

impl AcquireOne {
    /// A request without a wait, for a lease that is kept by its own heartbeats.
    #[must_use]
    pub fn new(key: Key, owner: Owner, ttl_ms: u64) -> Self {
        Self {
            key,
            owner,
            ttl_ms,
            value: None,
            reclaim: false,
            allow_stale: false,
            wait_ms: 0,
            mark: None,
            session: None,
            min_hold_ms: 0,
        }
    }
}

impl Manager {
    /// Acquires a key that is a lease. [`Self::acquire_permit`] acquires one that has permits: so does a caller to whom
    /// [`CallError::PolicyChanged`] says that the key got permits while the call waited. `asked` says when the
    /// request arrived: the time spent waiting counts in the holder's favour.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn acquire(
        &self,
        one: &AcquireOne,
        asked: impl Into<Asked>,
    ) -> Result<Grant, AcquireError> {
        let asked = asked.into();
        if let Some(session) = one.session {
            return Box::pin(self.acquire_under(one, session, asked)).await;
        }
        self.check_ttl(one.key.as_str(), "ttl_ms", one.ttl_ms)?;
        Ok(self.acquire_kept(one, one.ttl_ms, None, asked).await?.heard().1)
    }

    /// R6: the session is seen alive before the grant is written, and again before the caller is told. The promise is
    /// the session's.
    async fn acquire_under(
        &self,
        one: &AcquireOne,
        id: SessionId,
        asked: Asked,
    ) -> Result<Grant, AcquireError> {
        let under = self.call_under(id, asked).await?;
        let (session_ref, ttl_ms) = (Some(under.session_ref()), under.ttl_ms());
        let taking = self.acquire_kept(one, ttl_ms, session_ref, asked);
        let mut unheard = under.unless_over(pin!(taking)).await?;
        if let Some(told) = self.coordinator.protocol.a_grant_is_told_without_a_heartbeat(ttl_ms) {
            unheard.grant.valid_for_ms = told;
            return Ok(unheard.heard().1);
        }
        unheard.grant.valid_for_ms = under.promise(|| vec![one.key.clone()]).await?;
        if under.is_lost(&one.key, unheard.grant.view.token) {
            let spent = Refusal::RequestSpent(Some(ChangeKind::Revoked));
            let view = Box::new(unheard.grant.view.clone());
            return Err(AcquireError::Refused(spent, Some(view)));
        }
        Ok(unheard.heard().1)
    }

    /// Acquires a key for a caller that is told of the grant later.
    async fn acquire_kept(
        &self,
        one: &AcquireOne,
        ttl_ms: u64,
        session_ref: Option<SessionRef>,
        asked: Asked,
    ) -> Result<Unheard, AcquireError> {
        let stay = self.stay(one.mark, one.wait_ms, asked.received);
        let granted = async {
            loop {
                let acquire = Acquire { since: stay.since(), ..self.checked(one, asked.received)? };
                let claim = self.claim(&one.owner, &one.key)?;
                let new = self.new_key(&one.owner, &one.key).await?;
                let granted =
                    self.own(&one.key, Acquire { ttl_ms, session_ref, ..acquire }, asked).await;
                new_keys::end(new, &granted);
                claim.end(granted.as_ref().ok().map(|grant| grant.view.token));
                match granted {
                    Err(AcquireError::Call(CallError::PolicyChanged)) => {
                        self.check_still_lease(&one.key)?;
                    }
                    granted => return granted,
                }
            }
        }
        .await;
        if granted.is_ok() {
            stay.end();
        }
        self.count(&one.key, asked, &granted);
        let granted = granted.map_err(|error| error.blaming(one.value.as_deref()))?;
        Ok(Unheard::new(&self.coordinator, one.key.clone(), granted, one.mark.is_some()))
    }

    /// R9: takes a place in this node's queue for a caller whose session has another home node, where the key is then
    /// granted. Returns when its turn has come: the key is then offered to its owner for 2 s.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub async fn take_place(&self, one: &AcquireOne, asked: Asked) -> Result<(), AcquireError> {
        let acquire = self.checked(one, asked.received)?;
        let stay = self.stay(one.mark, one.wait_ms, asked.received);
        let since = stay.since();
        let acquire = Acquire { mark: None, place: true, since, ..acquire };
        match self.ask_to_own(&one.key, acquire, asked).await? {
            Answer::Done(_) => Ok(()),
            Answer::Refused(why, view) => Err(AcquireError::Refused(why, Some(view))),
            other => Err(CallError::of("take a place", other).into()),
        }
    }

    /// The place of a call in the queues of this node.
    pub(super) fn stay(
        &self,
        mark: Option<(u128, u64)>,
        wait_ms: u64,
        received: Moment,
    ) -> Stay<'_> {
        let mark = mark.filter(|_| wait_ms > 0);
        self.kept_places.begin(mark, received, self.coordinator.clock.as_ref())
    }

    /// Checks that a key is a lease again, after its actor found that it was none.
    fn check_still_lease(&self, key: &Key) -> Result<(), CallError> {
        match self.named(key.as_str()) {
            Named::Lease => Ok(()),
            Named::Permits(_) => Err(CallError::PolicyChanged),
            Named::NoPermit(_) => Ok(self.check_lease(key.as_str())?),
        }
    }

    /// Checks a request, and says it in the terms of the protocol.
    fn checked(&self, one: &AcquireOne, received: Moment) -> Result<Acquire, CallError> {
        check_value(one.value.as_deref())?;
        check_min_hold(one.min_hold_ms)?;
        check_new("key", one.key.as_str())?;
        check_new("owner", one.owner.as_str())?;
        self.check_named("key", &one.key)?;
        Ok(Acquire {
            value: one.value.clone(),
            reclaim: one.reclaim,
            allow_stale: one.allow_stale,
            wait_until: self.check_wait(one.wait_ms, received)?,
            mark: one.mark,
            min_hold_ms: one.min_hold_ms,
            permit: self.has_permits(&one.key),
            ..self.request(&one.owner, one.ttl_ms)
        })
    }

    /// Whether the policy of a key makes it a permit of another one, if it is a lease.
    pub(super) fn has_permits(&self, key: &Key) -> bool {
        self.coordinator.policy_table().of(key.as_str()).0.permits > 1
    }

    /// A request of the protocol that does not wait, under a nonce of its own.
    pub(super) fn request(&self, owner: &Owner, ttl_ms: u64) -> Acquire {
        Acquire {
            owner: owner.clone(),
            ttl_ms,
            value: None,
            reclaim: false,
            allow_stale: false,
            wait_until: None,
            since: Moment::NEVER,
            grant_nonce: self.coordinator.entropy.nonce(),
            mark: None,
            session_ref: None,
            min_hold_ms: 0,
            spec: None,
            place: false,
            permit: false,
            pool: None,
        }
    }

    /// Counts the outcome of an attempt to acquire a key, unless another node is asked next: it counts the call.
    pub(super) fn count(&self, key: &Key, asked: Asked, attempt: &Result<Grant, AcquireError>) {
        let outcome = match attempt {
            Ok(_) => AcquireOutcome::Granted,
            Err(AcquireError::Refused(Refusal::Held | Refusal::HeldByYou, _)) => {
                AcquireOutcome::Held
            }
            Err(AcquireError::Call(error)) if error.is_forwarded(asked) => return,
            Err(_) => AcquireOutcome::Error,
        };
        let took = self.now().since(asked.received);
        self.coordinator.policy_table().of(key.as_str()).1.acquired(outcome, took);
    }

    /// Asks a key's actor for a grant.
    pub(super) async fn own(
        &self,
        key: &Key,
        acquire: Acquire,
        asked: Asked,
    ) -> Result<Grant, AcquireError> {
        match self.ask_to_own(key, acquire, asked).await? {
            Answer::Granted(grant) => Ok(*grant),
            Answer::Refused(why, view) => Err(AcquireError::Refused(why, Some(view))),
            other => Err(CallError::of("acquire", other).into()),
        }
    }

    /// Asks a key's actor to own the key, or for a place in its queue.
    pub(super) async fn ask_to_own(
        &self,
        key: &Key,
        acquire: Acquire,
        asked: Asked,
    ) -> Result<Answer, CallError> {
        self.check_grants()?;
        let make = || Request::Acquire(Box::new(acquire.clone()));
        let waits = acquire.wait_until.is_some();
        let _place = waits.then(|| self.places(&acquire.owner, 1)).transpose()?;
        let _waiting =
            waits.then(|| Waiting::begin(vec![self.coordinator.metrics_of(key.as_str())]));
        // A future that is passed on to a function is kept twice.
        tokio::select! {
            biased;
            answer = self.ask(key.as_str(), asked, make) => answer,
            () = self.drained(), if waits => Err(CallError::Draining),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_call<F: Future>(_: fn(&'static Manager, &'static AcquireOne) -> F) -> usize {
        size_of::<F>()
    }

    /// A node may have 200 000 callers that wait, and each occupies its call's future.
    #[test]
    fn a_call_that_waits_is_small() {
        let size = size_of_call(|manager, one| manager.acquire(one, Moment::ZERO));
        assert!(size <= 2048, "{size} bytes");
    }
}
