//! Signs of life, one and many.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::{
    body::{Body, json, lease_id},
    problem::Problem,
    server::App,
    wire::{BatchBody, HeartbeatAnswer, HeartbeatBody, LeaseRef, Verdict, Verdicts},
};
use crate::{
    lease::{Heartbeat, LeaseId, MAX_KEY_BYTES},
    manager::{Alive, HolderError},
};

/// Most leases of one batch.
pub const MAX_BATCH: usize = 10_000;

/// Stay the owner of a lease.
#[utoipa::path(post, path = "/v1/heartbeat", tag = "leases", request_body = HeartbeatBody, responses(
    (status = 200, description = "The lease goes on", body = HeartbeatAnswer),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`lease-lost`, with the reason", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`: a new value or ttl was not written", body = Problem),
))]
pub async fn heartbeat(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<HeartbeatBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let HeartbeatBody { key, lease_id: id, value, ttl_ms } = body.0;
    let result = async {
        check_key(&key)?;
        let beat = Heartbeat { lease_id: lease_id(&id)?, value: value.map(Into::into), ttl_ms };
        app.manager.heartbeat(&key, beat, received).await.map_err(|error| Problem::holder(&error))
    };
    match result.await {
        Ok(Alive { token, valid_for_ms, revived }) => {
            let answer =
                HeartbeatAnswer { key: &key, token: token.0, valid_for_ms, revived, notices: [] };
            json(&request, StatusCode::OK, &answer)
        }
        Err(problem) => problem.respond(&request),
    }
}

/// The cheap part of what makes a key valid; a key that passes and is not valid is simply unknown.
pub fn check_key(key: &str) -> Result<(), Problem> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || key.bytes().any(|b| b.is_ascii_control()) {
        return super::body::key(key).map(drop);
    }
    Ok(())
}

/// A lease of a batch that can be asked about, or why it cannot.
type Parsed<'a> = Result<(&'a str, LeaseId), Problem>;

/// Reads a batch, each lease by itself.
pub fn split(leases: &[LeaseRef]) -> Result<Vec<Parsed<'_>>, Problem> {
    if leases.len() > MAX_BATCH {
        let detail = format!("names {} leases; at most {MAX_BATCH} are allowed", leases.len());
        return Err(Problem::field("leases", detail));
    }
    let read = |lease: &LeaseRef| {
        check_key(&lease.key)?;
        lease_id(&lease.lease_id)
    };
    Ok(leases.iter().map(|lease| read(lease).map(|id| (lease.key.as_str(), id))).collect())
}

/// The verdict that a problem is.
pub fn refused<'a>(key: &'a str, problem: Problem) -> Verdict<'a> {
    Verdict {
        key,
        status: problem.status,
        code: Some(problem.code),
        reason: problem.reason,
        detail: Some(problem.detail),
        ..Verdict::default()
    }
}

/// Stay the owner of many leases.
#[utoipa::path(post, path = "/v1/heartbeats", tag = "leases", request_body = BatchBody, responses(
    (status = 200, description = "A verdict per lease, in order; one failure never spoils another", body = Verdicts),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
))]
pub async fn heartbeats(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<BatchBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let leases = body.0.leases;
    let parsed = match split(&leases) {
        Ok(parsed) => parsed,
        Err(problem) => return problem.respond(&request),
    };
    let asked = parsed.iter().filter_map(|lease| lease.as_ref().ok().copied());
    let mut answers = app.manager.heartbeats(asked, received).await.into_iter();
    let mut results = Vec::with_capacity(leases.len());
    for (lease, parsed) in leases.iter().zip(parsed) {
        let verdict = match parsed {
            Err(problem) => refused(&lease.key, problem),
            Ok(_) => match answers.next() {
                Some(answer) => verdict(&lease.key, answer),
                None => continue,
            },
        };
        results.push(verdict);
    }
    json(&request, StatusCode::OK, &Verdicts { results })
}

fn verdict(key: &str, answer: Result<Alive, HolderError>) -> Verdict<'_> {
    match answer {
        Ok(Alive { token, valid_for_ms, revived }) => Verdict {
            key,
            status: 200,
            token: Some(token.0),
            valid_for_ms: Some(valid_for_ms),
            revived,
            ..Verdict::default()
        },
        Err(error) => refused(key, Problem::holder(&error)),
    }
}
