//! Places in the queue of a key, for callers at other nodes.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse};

use crate::{
    http::{
        answer::Problem,
        app::App,
        caller::Caller,
        forward::{Waiting, moved},
    },
    lease::Key,
    manager::{AcquireError, AcquireOne, CallError},
};

/// Serves a request for a place in this node's queue, for a caller at another node. Answers 204 when its turn has come.
pub async fn take_place(request: &HttpRequest, app: &App, one: &AcquireOne) -> HttpResponse {
    let wait = Duration::from_millis(one.wait_ms).min(app.manager.limits().wait_max);
    let asked = Waiting::of(request, app, wait).asked();
    match app.manager.take_place(one, asked).await {
        Ok(()) => HttpResponse::NoContent().finish(),
        Err(error) => {
            let problem = refused(&error, request, app, &one.key);
            // The node that asks looks at its own policies before it asks again.
            let changed = matches!(error, AcquireError::Call(CallError::PolicyChanged));
            let elsewhere = problem.home().is_some() || changed;
            let response = problem.respond(request);
            if elsewhere { moved(response) } else { response }
        }
    }
}

/// Why the key was not acquired. A caller that may not read the key is told no more than that it is held.
pub fn refused(error: &AcquireError, request: &HttpRequest, app: &App, key: &Key) -> Problem {
    Caller::of(request).told(key.as_str(), Problem::acquire(error, app, Some(key)))
}
