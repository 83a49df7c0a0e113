//! Problem documents for acquisitions that were refused.

use actix_web::http::StatusCode;

use super::{
    super::{server::App, wire},
    Problem,
};
use crate::{
    lease::{Key, Refusal, State, View},
    manager::{AcquireError, Share},
};

impl Problem {
    fn refusal(why: Refusal, lease: Option<(&App, &Key, &View)>) -> Self {
        let wire = |lease: Option<(&App, &Key, &View)>| {
            lease.map(|(app, key, view)| Box::new(wire::Lease::of(app, key, view)))
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
                let counts = wire::Counts::of(counts);
                let retry_after_ms = counts.next_ms;
                Self { retry_after_ms, ..Self::none_available(title, error, counts) }
            }
            AcquireError::NoneOfShare(counts, Share { share, held }) => {
                let title = "The session has its share, or no key is available";
                let problem = Self::none_available(title, error, wire::Counts::of(counts));
                Self { share: Some(*share), held_by_session: Some(*held), ..problem }
            }
            AcquireError::Session(error) => Self::session(error),
            AcquireError::Call(error) => Self::call(error),
        }
    }

    fn none_available(title: &'static str, error: &AcquireError, counts: wire::Counts) -> Self {
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
        (None, State::Offered) => {
            let to = view.offered_to.as_ref().map_or_else(String::new, |to| format!(" to {to:?}"));
            format!("{key:?} is offered{to}; {rest}")
        }
        (None, _) => format!("{key:?} is held"),
    }
}
