//! Releasing leases, and handing them over.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::batch;
use crate::{
    api::{BatchBody, Lease, LeaseAnswer, ReleaseBody, Released, TransferBody, Verdict, Verdicts},
    http::{
        about::about,
        answer::{Problem, json},
        app::App,
        caller::Caller,
        forward::act_at_home,
        request::{Body, held, owner},
    },
    lease::{Key, Release, Transfer},
};

/// Release a lease.
#[utoipa::path(post, path = "/v1/release", tag = "leases", request_body = ReleaseBody, responses(
    (status = 200, description = "The tenure has ended; `released` is false if it had ended before", body = Released),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`not-holder`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn release(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<ReleaseBody>,
) -> HttpResponse {
    let key = &body.0.key;
    about(&app, key, None);
    act_at_home(&request, &app, &body.1, async |asked| {
        let release = read_release(&Caller::of(&request), &body.0)?;
        let released = app.manager.release(key, release, asked).await;
        let released = released
            .map_err(|error| Caller::of(&request).told(key, Problem::holder(&error, &app, key)))?;
        Ok(json(&request, StatusCode::OK, &Released::from(released)))
    })
    .await
}

/// Release many leases in one call.
#[utoipa::path(post, path = "/v1/releases", tag = "leases", request_body = BatchBody, responses(
    (status = 200, description = "One result per lease, in the order of the request; a failure of one lease does not affect the others", body = Verdicts),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
))]
pub async fn releases(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<BatchBody>,
) -> HttpResponse {
    let ask = async |leases: Vec<_>, asked| app.manager.releases(leases.into_iter(), asked).await;
    batch::answer(&request, &app, &body.0, ask, |key, answer| match answer {
        Ok(released) => {
            Verdict { key, status: 200, released: Some(released), ..Verdict::default() }
        }
        Err(error) => {
            let problem = Problem::holder(&error, &app, key);
            batch::refused(key, Caller::of(&request).told(key, problem))
        }
    })
    .await
}

/// Transfer a lease to a successor.
#[utoipa::path(post, path = "/v1/transfer", tag = "leases", request_body = TransferBody, responses(
    (status = 200, description = "The tenure has ended. The key is reserved for `to`; without `to`, it is free or already granted to a waiter", body = LeaseAnswer),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`lease-lost`, with the reason", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn transfer(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<TransferBody>,
) -> HttpResponse {
    let Body(body, bytes) = &body;
    about(&app, &body.key, None);
    act_at_home(&request, &app, bytes, async |asked| {
        let (key, transfer) = read_transfer(&Caller::of(&request), body)?;
        let view = app.manager.transfer(key.as_str(), transfer, asked).await;
        let view = view.map_err(|error| {
            let problem = Problem::holder(&error, &app, key.as_str());
            Caller::of(&request).told(key.as_str(), problem)
        })?;
        // The key may have been granted to a waiter by now.
        let lease = Caller::of(&request).shown(Lease::of(&app, &key, &view));
        let answer = LeaseAnswer { lease };
        Ok(json(&request, StatusCode::OK, &answer))
    })
    .await
}

/// Reads a release and checks all that needs no state.
pub fn read_release(caller: &Caller, body: &ReleaseBody) -> Result<Release, Problem> {
    let lease_id = held(caller, &body.key, &body.lease_id)?;
    Ok(Release {
        lease_id,
        value: body.value.as_deref().map(Into::into),
        reason: body.reason.as_deref().map(Into::into),
    })
}

/// Reads a transfer and checks all that needs no state.
pub fn read_transfer(caller: &Caller, body: &TransferBody) -> Result<(Key, Transfer), Problem> {
    let key = caller.held_key(&body.key)?;
    if body.to.is_none() && body.offer_ms.is_some() {
        let detail = "says how long the key is kept for `to`, and `to` is missing";
        return Err(Problem::field("offer_ms", detail));
    }
    let transfer = Transfer {
        lease_id: caller.lease_id(&body.lease_id)?,
        to: body.to.as_deref().map(|to| owner("to", to)).transpose()?,
        offer_ms: body.offer_ms,
        value: body.value.as_deref().map(Into::into),
        reason: body.reason.as_deref().map(Into::into),
    };
    Ok((key, transfer))
}
