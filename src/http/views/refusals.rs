//! Problem documents for operations that the coordinator refuses.

use actix_web::http::StatusCode;

use crate::{
    api,
    http::{answer::Problem, app::App},
    lease::{Key, KeyState, Refusal, StoreError, View},
    manager::{
        AcquireError, AdminError, CallError, HolderError, Home, Invalid, SessionError, Share,
    },
};

/// How long a caller waits before it tries again, in milliseconds. Another node adopts a dead node's leases after some
/// seconds; earlier attempts cost little.
const HOME_RETRY_MS: u64 = 500;

impl Problem {
    pub fn store(error: &StoreError) -> Self {
        match error {
            StoreError::Full(_) => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(status, "store-full", "The store is full", error.to_string()).retry(1000)
            }
            StoreError::TooManyKeys(_) | StoreError::PolicyFull { .. } => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(status, "too-many-keys", "There are too many keys", error.to_string())
            }
            StoreError::TooManySessions(_) => {
                let status = StatusCode::INSUFFICIENT_STORAGE;
                let title = "There are too many sessions";
                Self::new(status, "too-many-keys", title, error.to_string())
            }
            StoreError::Unavailable(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let title = "The store is unavailable";
                Self::new(status, "store-unavailable", title, error.to_string()).retry(1000)
            }
        }
    }

    /// What any operation can meet.
    pub fn call(error: &CallError) -> Self {
        let detail = error.to_string();
        match error {
            CallError::Invalid(invalid) => Self::invalid(invalid),
            CallError::Busy => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                Self::new(status, "busy", "The key is busy", detail).retry(100)
            }
            CallError::Crowded => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                Self::new(status, "busy", "The coordinator is busy", detail).retry(1000)
            }
            CallError::Quarantined(_) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "record-quarantined", "The key's record is quarantined", detail)
            }
            CallError::Store(error) => Self::store(error),
            CallError::Resting(span) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let after = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
                Self::new(status, "key-resting", "The key is resting", detail).retry(after)
            }
            CallError::Draining => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "draining", "The coordinator accepts no work", detail).retry(1000)
            }
            CallError::Elsewhere(home) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let title = "The lease's home node cannot be reached";
                let problem =
                    Self::new(status, "home-unreachable", title, detail).retry(HOME_RETRY_MS);
                let node = home.url.as_deref().map(str::to_owned);
                Self { node, home: Some(Box::new(home.clone())), ..problem }
            }
            CallError::Lapsed => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let title = "The node may not promise for now";
                Self::new(status, "node-lapsed", title, detail).retry(HOME_RETRY_MS)
            }
            CallError::Frozen => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "store-frozen", "The store is frozen", detail)
            }
            CallError::InFlight => {
                let status = StatusCode::CONFLICT;
                Self::new(status, "request-in-flight", "The request is in progress", detail)
                    .retry(100)
            }
            // The call may have had an effect: a caller that repeats it unchanged finds out.
            CallError::Unexpected => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                Self::new(status, "internal", "The coordinator has a fault", detail).retry(1000)
            }
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
                let title = "The session is over";
                let detail = format!("the session no longer exists: {reason}");
                let problem = Self::new(StatusCode::CONFLICT, "session-lost", title, detail);
                Self { reason: Some(reason), ..problem }
            }
            SessionError::Call(error) => Self::call(error),
        }
    }

    pub fn unknown_pool(pool: &str, known: &[std::sync::Arc<str>]) -> Self {
        let detail = format!("no policy defines {pool:?}; the pools are {}", known.join(", "));
        Self::new(StatusCode::NOT_FOUND, "unknown-pool", "The pool is unknown", detail)
    }

    pub fn unknown_session() -> Self {
        let title = "There is no such session";
        let detail = "the session has ended or never existed";
        Self::new(StatusCode::NOT_FOUND, "unknown-session", title, detail.into())
    }

    pub fn holder(error: &HolderError, app: &App, key: &str) -> Self {
        match error {
            HolderError::KeptBySession(session) => {
                let title = "A session keeps the lease";
                let detail = format!(
                    "session {session} keeps this lease: send the session's heartbeat instead"
                );
                Self::new(StatusCode::CONFLICT, "kept-by-session", title, detail)
            }
            HolderError::Lost(lost) => {
                let reason = lost.as_str();
                let title = "You no longer hold the lease";
                let detail = format!("the tenure of this lease_id has ended: {reason}");
                let problem = Self::new(StatusCode::CONFLICT, "lease-lost", title, detail);
                Self { reason: Some(reason), ..problem }
            }
            HolderError::NotHolder(view) => {
                let title = "Another owner holds the lease";
                let detail = format!("this lease_id does not hold {key:?}");
                let lease = Key::new(key).ok().map(|key| Box::new(api::Lease::of(app, &key, view)));
                let problem = Self::new(StatusCode::CONFLICT, "not-holder", title, detail);
                Self { lease, ..problem }
            }
            HolderError::Call(error) => Self::call(error),
        }
    }

    pub fn admin(error: &AdminError, app: &App, key: Option<&Key>) -> Self {
        let lease = |view: &View| key.map(|key| Box::new(api::Lease::of(app, key, view)));
        match error {
            AdminError::NotFencing(view) => {
                let title = "No fence is pending";
                let detail = "no fence of the key is waiting for confirmation";
                let problem = Self::new(StatusCode::CONFLICT, "not-fencing", title, detail.into());
                Self { lease: lease(view), ..problem }
            }
            AdminError::NotHeld(view) => {
                let title = "The lease is not held";
                let problem = Self::new(StatusCode::CONFLICT, "not-held", title, title.into());
                Self { lease: lease(view), ..problem }
            }
            AdminError::Pinned(view) => {
                let detail = format!(
                    "the lease is pinned by {}: unpin it, or send immediately: true",
                    view.pins.join(", ")
                );
                let problem =
                    Self::new(StatusCode::CONFLICT, "pinned", "The lease is pinned", detail);
                Self { lease: lease(view), ..problem }
            }
            AdminError::TooManyPins => Self::field("by", error),
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
                let title = "The lease is held";
                let detail =
                    lease.map_or_else(|| title.to_owned(), |(_, key, view)| who(key, view));
                let problem = Self::new(StatusCode::CONFLICT, "held", title, detail);
                Self { retryable: true, retry_after_ms: wait, lease: wire(lease), ..problem }
            }
            Refusal::Cooling => {
                let title = "The lock-delay is not over";
                let detail = lease.map_or_else(
                    || title.to_owned(),
                    |(_, key, view)| {
                        let left = view.expires_in_ms.unwrap_or(0);
                        format!("the last tenure of {key:?} ended without its owner's consent; the key opens in {left} ms")
                    },
                );
                let problem = Self::new(StatusCode::LOCKED, "cooling", title, detail);
                Self { retryable: true, retry_after_ms: wait, lease: wire(lease), ..problem }
            }
            Refusal::Fencing => {
                let title = "The last owner is being fenced";
                let detail = lease.map_or_else(
                    || title.to_owned(),
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
                let problem = Self::new(StatusCode::LOCKED, "fencing", title, detail);
                Self { retryable: true, lease: wire(lease), ..problem }
            }
            Refusal::HeldByYou => {
                let title = "You already hold the lease";
                let detail = "with reclaim: true, a new tenure of this owner replaces the old one";
                let problem = Self::new(StatusCode::CONFLICT, "held-by-you", title, detail.into());
                Self { lease: wire(lease), ..problem }
            }
            Refusal::RequestReused => {
                let title = "The request_id was used for another request";
                let detail = "give each request its own request_id, and repeat it unchanged";
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                let problem = Self::new(status, "request-id-reused", title, detail.into());
                Self { field: Some("request_id".into()), ..problem }
            }
            Refusal::RequestSpent(how) => {
                let title = "The grant for this request_id is over";
                let how = how.map_or("ended", |how| how.as_str());
                let detail = format!("this request was granted, and that tenure is over: {how}");
                let problem = Self::new(StatusCode::CONFLICT, "request-id-spent", title, detail);
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
                let title = "None of the keys is available";
                let counts = api::Counts::of(counts);
                let retry_after_ms = counts.next_ms;
                Self { retry_after_ms, ..Self::none_available(title, error, counts) }
            }
            AcquireError::NoneOfShare(counts, Share { share, held }) => {
                let title = "The session has its share, or no key is available";
                let problem = Self::none_available(title, error, api::Counts::of(counts));
                Self { share: Some(*share), held_by_session: Some(*held), ..problem }
            }
            AcquireError::Session(error) => Self::session(error),
            AcquireError::Call(error) => Self::call(error),
        }
    }

    fn none_available(title: &'static str, error: &AcquireError, counts: api::Counts) -> Self {
        let problem = Self::new(StatusCode::CONFLICT, "none-available", title, error.to_string());
        Self { retryable: true, counts: Some(counts), ..problem }
    }
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
}
