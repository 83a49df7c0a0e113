//! R5: forwards calls about a lease to its home node, where another living node is that, and relays the answer.
//!
//! Guarantees: a call is forwarded at most once, so never in a circle. The body of the home node's answer is relayed
//! byte for byte.
//!
//! Does not guarantee: an answer while the home node cannot be reached. The caller is then told to try again
//! (`home-unreachable`). A release is written here, since it is by consent.
//!
//! Assumes: nodes reach each other at the URLs that they advertise.

use actix_web::{HttpRequest, HttpResponse};
use bytes::Bytes;

use super::relay::relay;
use crate::{
    http::{answer::Problem, app::App, peer::was_forwarded},
    manager::Asked,
};

/// Serves a call at the lease's home node: here, or by forwarding it. If the home node cannot be reached, does what may
/// be done here without it.
pub async fn act_at_home(
    request: &HttpRequest,
    app: &App,
    body: &Bytes,
    act: impl AsyncFn(Asked) -> Result<HttpResponse, Problem>,
) -> HttpResponse {
    let received = app.manager.now();
    let problem = match act(received.into()).await {
        Ok(response) => return response,
        Err(problem) => problem,
    };
    let Some(home) = problem.home().filter(|_| !was_forwarded(request)) else {
        return problem.respond(request);
    };
    if let Some(response) = relay(request, app, home, body.clone()).await {
        return response;
    }
    match act(Asked { received, home_unreachable: true }).await {
        Ok(response) => response,
        Err(problem) => problem.respond(request),
    }
}
