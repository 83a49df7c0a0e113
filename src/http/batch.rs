//! Many leases in one request: a verdict for each, and one failure never spoils another.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode};

use super::{
    body::{json, lease_id},
    problem::Problem,
    wire::{BatchBody, LeaseRef, Verdict, Verdicts},
};
use crate::lease::{LeaseId, MAX_KEY_BYTES};

/// Most leases of one batch.
const MAX_BATCH: usize = 10_000;

/// The cheap part of what makes a key valid; a key that passes and is not valid is simply unknown.
pub fn check_key(key: &str) -> Result<(), Problem> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES || key.bytes().any(|b| b.is_ascii_control()) {
        return super::body::key(key).map(drop);
    }
    Ok(())
}

/// The verdict that a problem is.
pub fn refused(key: &str, problem: Problem) -> Verdict<'_> {
    Verdict {
        key,
        status: problem.status,
        code: Some(problem.code),
        reason: problem.reason,
        detail: Some(problem.detail),
        ..Verdict::default()
    }
}

/// Asks about the leases of a batch that can be asked about, and gives each its verdict, in order.
pub async fn answer<'b, T>(
    request: &HttpRequest,
    body: &'b BatchBody,
    ask: impl AsyncFnOnce(Vec<(&'b str, LeaseId)>) -> Vec<T>,
    verdict: impl Fn(&'b str, T) -> Verdict<'b>,
) -> HttpResponse {
    let leases = &body.leases;
    if leases.len() > MAX_BATCH {
        let detail = format!("names {} leases; at most {MAX_BATCH} are allowed", leases.len());
        return Problem::field("leases", detail).respond(request);
    }
    let mut asked = Vec::with_capacity(leases.len());
    let mut unasked = Vec::with_capacity(leases.len());
    for lease in leases {
        match read(lease) {
            Ok(id) => {
                asked.push((lease.key.as_str(), id));
                unasked.push(None);
            }
            Err(problem) => unasked.push(Some(problem)),
        }
    }
    let mut answers = ask(asked).await.into_iter();
    let results = leases.iter().zip(unasked).filter_map(|(lease, problem)| match problem {
        Some(problem) => Some(refused(&lease.key, problem)),
        None => answers.next().map(|answer| verdict(&lease.key, answer)),
    });
    json(request, StatusCode::OK, &Verdicts { results: results.collect() })
}

fn read(lease: &LeaseRef) -> Result<LeaseId, Problem> {
    check_key(&lease.key)?;
    lease_id(&lease.lease_id)
}
