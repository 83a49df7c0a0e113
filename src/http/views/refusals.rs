//! Problem documents for operations that the coordinator refuses.

use crate::{
    api::{self, Code},
    http::{answer::Problem, app::App},
    lease::{Key, KeyState, Nonce, Refusal, StoreError, View},
    manager::{
        AcquireError, AdminError, CallError, HolderError, Home, Invalid, SessionError, Share,
    },
};

/// How long a caller waits before it tries again, in milliseconds. Another node adopts a dead node's leases after some
/// seconds; earlier attempts cost little.
const HOME_RETRY_MS: u64 = 500;

impl Problem {
    pub fn store(error: &StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::Full(_) => Self::of(Code::StoreFull, detail).retry(1000),
            StoreError::TooManyKeys(_) | StoreError::PolicyFull { .. } => {
                Self::of(Code::TooManyKeys, detail)
            }
            StoreError::TooManySessions(_) => {
                Self { title: "There are too many sessions", ..Self::of(Code::TooManyKeys, detail) }
            }
            // No repetition helps, and no field of the call is at fault.
            StoreError::TooLong(_) => {
                let title = "The record is too long for the store";
                Self { title, retryable: false, ..Self::of(Code::Internal, detail) }
            }
            StoreError::Unavailable(_) => Self::of(Code::StoreUnavailable, detail).retry(1000),
        }
    }

    /// What any operation can meet.
    pub fn call(error: &CallError) -> Self {
        let detail = error.to_string();
        match error {
            CallError::Invalid(invalid) => Self::invalid(invalid),
            CallError::Busy => Self::of(Code::Busy, detail).retry(100),
            CallError::RecordTaken => Self::of(Code::OrderWaits, detail).retry(1000),
            CallError::IndexingSession | CallError::IndexingPool => {
                let problem = Self::of(Code::Busy, detail).retry(100);
                Self { title: "The node is still indexing", ..problem }
            }
            CallError::Crowded => {
                let problem = Self::of(Code::Busy, detail).retry(1000);
                Self { title: "The coordinator is busy", ..problem }
            }
            CallError::PolicyChanged => {
                let problem = Self::of(Code::Busy, detail).retry(0);
                Self { title: "The policy of the key has changed", ..problem }
            }
            CallError::OverLimit { .. } | CallError::OverWaits { .. } => {
                Self::of(Code::LimitReached, detail).retry(1000)
            }
            CallError::OverNewKeys { after, .. } => {
                let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                Self::of(Code::LimitReached, detail).retry(after.max(1000))
            }
            CallError::Quarantined(_) => Self::of(Code::RecordQuarantined, detail),
            CallError::Store(error) => Self::store(error),
            CallError::Resting(span) => {
                let after = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                Self::of(Code::KeyResting, detail).retry(after)
            }
            CallError::Draining => Self::of(Code::Draining, detail).retry(1000),
            CallError::Elsewhere(home) => {
                let node = home.url.as_deref().map(str::to_owned);
                let url = node.as_ref().map(|url| format!(", {url},")).unwrap_or_default();
                let detail =
                    format!("the lease's home node{url} cannot be reached; try again in a moment");
                let problem = Self::of(Code::HomeUnreachable, detail).retry(HOME_RETRY_MS);
                Self { node, home: Some(Box::new(home.clone())), ..problem }
            }
            CallError::Lapsed => Self::of(Code::NodeLapsed, detail).retry(HOME_RETRY_MS),
            CallError::Frozen => Self::of(Code::StoreFrozen, detail),
            CallError::InFlight => Self::of(Code::RequestInFlight, detail).retry(100),
            // The call may have had an effect: a caller that repeats it unchanged finds out.
            CallError::Unexpected => Self::of(Code::Internal, detail).retry(1000),
        }
    }

    /// The node that serves a request id cannot be reached.
    pub fn server_unreachable(server: &Home) -> Self {
        let url = server.url.as_deref().unwrap_or_default();
        let detail = format!("{url} serves the calls with this request_id, and it does not answer");
        Self { detail, ..Self::call(&CallError::Elsewhere(server.clone())) }
    }

    pub fn invalid(invalid: &Invalid) -> Self {
        Self::field(invalid.field, &invalid.detail)
    }

    pub fn session(error: &SessionError) -> Self {
        match error {
            SessionError::Lost(lost) => {
                let reason = lost.as_str();
                let detail = format!("the session no longer exists: {reason}");
                let problem = Self::of(Code::SessionLost, detail);
                Self { reason: Some(reason), ..problem }
            }
            SessionError::Call(error) => Self::call(error),
        }
    }

    pub fn unknown_pool(pool: &str, known: &[std::sync::Arc<str>]) -> Self {
        let detail = format!("no policy defines {pool:?}; the pools are {}", known.join(", "));
        Self { field: Some("pool".into()), ..Self::of(Code::UnknownPool, detail) }
    }

    /// `session` is the digest, which is not secret.
    pub fn unknown_session(session: Nonce) -> Self {
        let detail = format!("session {session} has ended or never existed");
        Self::of(Code::UnknownSession, detail)
    }

    pub fn holder(error: &HolderError, app: &App, key: &str) -> Self {
        match error {
            HolderError::KeptBySession(session) => {
                let detail = format!(
                    "session {session} keeps this lease: send the session's heartbeat instead"
                );
                Self::of(Code::KeptBySession, detail)
            }
            HolderError::Lost(lost) => {
                let reason = lost.as_str();
                let detail = format!("the tenure of this lease_id has ended: {reason}");
                let problem = Self::of(Code::LeaseLost, detail);
                Self { reason: Some(reason), ..problem }
            }
            HolderError::NotHolder(view) => {
                let detail = format!(
                    "this lease_id does not hold {key:?}: another owner does; nothing was released, and the resource \
                     must no longer be used"
                );
                let lease = Key::new(key).ok().map(|key| Box::new(api::Lease::of(app, &key, view)));
                let problem = Self::of(Code::NotHolder, detail);
                Self { lease, ..problem }
            }
            HolderError::Call(error) => Self::call(error),
        }
    }

    pub fn admin(error: &AdminError, app: &App, key: Option<&Key>) -> Self {
        let lease = |view: &View| key.map(|key| Box::new(api::Lease::of(app, key, view)));
        match error {
            AdminError::NotFencing(view) => {
                let detail = format!("no fence of {} is waiting for confirmation", named(key));
                let problem = Self::of(Code::NotFencing, detail);
                Self { lease: lease(view), ..problem }
            }
            AdminError::NotHeld(view) => {
                let problem = Self::of(Code::NotHeld, format!("nobody holds {}", named(key)));
                Self { lease: lease(view), ..problem }
            }
            AdminError::Pinned(view) => {
                let detail = format!(
                    "the lease is pinned by {}: unpin it, or send immediately: true",
                    view.pins.join(", ")
                );
                let problem = Self::of(Code::Pinned, detail);
                Self { lease: lease(view), ..problem }
            }
            AdminError::TooManyPins => Self::field("by", error),
            AdminError::NoAccessFile => Self::of(Code::NoAccessFile, error.to_string()),
            AdminError::LocksOut => Self::of(Code::LocksOut, error.to_string()),
            AdminError::OtherVersion(_) => Self::of(Code::OtherVersion, error.to_string()),
            AdminError::Call(error) => Self::call(error),
        }
    }

    fn refusal(why: Refusal, lease: Option<(&App, &Key, &View)>) -> Self {
        let wire = |lease: Option<(&App, &Key, &View)>| {
            lease.map(|(app, key, view)| Box::new(api::Lease::of(app, key, view)))
        };
        let wait = lease.and_then(|(_, _, view)| view.expires_in_ms);
        match why {
            Refusal::Held => {
                let detail = lease
                    .map_or_else(|| Code::Held.title().to_owned(), |(_, key, view)| who(key, view));
                let problem = Self::of(Code::Held, detail);
                Self { retry_after_ms: wait, lease: wire(lease), ..problem }
            }
            Refusal::Cooling => {
                let detail = lease.map_or_else(
                    || Code::Cooling.title().to_owned(),
                    |(_, key, view)| {
                        let left = view.expires_in_ms.unwrap_or(0);
                        format!("the last tenure of {key:?} is over, but the key is still shut; it opens in {left} ms")
                    },
                );
                let problem = Self::of(Code::Cooling, detail);
                Self { retry_after_ms: wait, lease: wire(lease), ..problem }
            }
            Refusal::Fencing => {
                let detail = lease.map_or_else(
                    || Code::Fencing.title().to_owned(),
                    |(_, key, view)| {
                        let names = view.fences.join(", ");
                        let how = if view.fence_failed {
                            "failed, and the key waits for an administrator"
                        } else {
                            "is not confirmed yet"
                        };
                        format!("the fence of the last tenure of {key:?} ({names}) {how}")
                    },
                );
                let problem = Self::of(Code::Fencing, detail);
                Self { lease: wire(lease), ..problem }
            }
            Refusal::HeldByYou => {
                let detail = format!(
                    "this owner already holds {}; with reclaim: true, a new tenure replaces that one",
                    named(lease.map(|(_, key, _)| key))
                );
                let problem = Self::of(Code::HeldByYou, detail);
                Self { lease: wire(lease), ..problem }
            }
            Refusal::RequestReused => {
                let detail = "this request_id was used for another request; give each request its own request_id, and \
                              repeat a request unchanged";
                let problem = Self::of(Code::RequestIdReused, detail);
                Self { field: Some("request_id".into()), ..problem }
            }
            Refusal::RequestSpent(how) => {
                let how = how.map(|how| format!(" ({})", how.as_str())).unwrap_or_default();
                let detail = format!(
                    "a lease that was granted under this request_id is over{how}; acquire again under a new request_id"
                );
                let problem = Self::of(Code::RequestIdSpent, detail);
                Self { lease: wire(lease), ..problem }
            }
        }
    }

    /// Why nothing was acquired; `key` is the key that the call names, if it names one.
    pub fn acquire(error: &AcquireError, app: &App, key: Option<&Key>) -> Self {
        match error {
            AcquireError::Refused(why, view) => {
                let lease = key.zip(view.as_deref());
                Self::refusal(*why, lease.map(|(key, view)| (app, key, view)))
            }
            AcquireError::NoneAvailable(counts) => {
                let counts = api::Counts::of(counts);
                let retry_after_ms = counts.next_ms;
                Self { retry_after_ms, ..Self::none_available(error, counts) }
            }
            AcquireError::NoneOfShare(counts, Share { share, held }, _) => {
                let title = "The session has its share, or no key is available";
                let problem = Self::none_available(error, api::Counts::of(counts));
                Self { title, share: Some(*share), held_by_session: Some(*held), ..problem }
            }
            AcquireError::Session(error) => Self::session(error),
            AcquireError::Call(error) => Self::call(error),
        }
    }

    fn none_available(error: &AcquireError, counts: api::Counts) -> Self {
        let problem = Self::of(Code::NoneAvailable, error.to_string());
        Self { counts: Some(counts), ..problem }
    }
}

fn named(key: Option<&Key>) -> String {
    key.map_or_else(|| "the key".to_owned(), |key| format!("{key:?}"))
}

fn who(key: &Key, view: &View) -> String {
    let rest = view.expires_in_ms.map_or_else(
        || {
            if let Some(session) = view.session {
                return format!("session {session} keeps it");
            }
            let known =
                if view.elsewhere { "its home node knows how long" } else { "it does not expire" };
            known.to_owned()
        },
        |ms| format!("it expires in {ms} ms unless it is renewed"),
    );
    match (&view.owner, view.state) {
        (Some(owner), _) => {
            format!("{key:?} is held by {owner:?} under token {}; {rest}", view.token)
        }
        (None, KeyState::Offered) => {
            let to = view.offered_to.as_ref().map_or_else(String::new, |to| format!(" to {to:?}"));
            format!("{key:?} is offered{to}; {rest}")
        }
        (None, _) => format!("{key:?} is held"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_coordinator_is_told_as_such_and_may_be_repeated() {
        let problem = Problem::call(&CallError::Unexpected);
        assert_eq!((problem.status, problem.code, problem.retryable), (500, "internal", true));
    }

    #[test]
    fn a_call_that_waits_for_an_index_is_told_so_and_repeated_like_one_for_a_busy_key() {
        let busy = Problem::call(&CallError::Busy);
        assert_eq!(busy.code, "busy");
        for indexing in [CallError::IndexingSession, CallError::IndexingPool] {
            let problem = Problem::call(&indexing);
            assert_eq!((problem.status, problem.code), (busy.status, busy.code));
            assert_eq!(problem.retryable, busy.retryable);
            assert_eq!(problem.retry_after_ms, busy.retry_after_ms);
            assert_ne!((problem.title, &problem.detail), (busy.title, &busy.detail));
        }
    }

    #[test]
    fn a_record_that_no_repetition_makes_shorter_is_not_told_as_an_outage() {
        let problem = Problem::store(&StoreError::TooLong("400 KB at most".into()));
        assert_eq!((problem.status, problem.code, problem.retryable), (500, "internal", false));
        assert!(problem.detail.contains("400 KB at most"), "{}", problem.detail);
    }
}
