//! Heartbeats of one lease and of many.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::batch;
use crate::{
    api::{BatchBody, HeartbeatAnswer, HeartbeatBody, Verdict, Verdicts},
    http::{
        about::{about, about_tenure},
        answer::{Problem, json},
        app::App,
        caller::Caller,
        following::{Following, keeps},
        forward::act_at_home,
        request::{Body, held},
        views::kept,
    },
    lease::Heartbeat,
    manager::{Alive, HolderError},
};

/// Send the heartbeat of a lease, which keeps it.
#[utoipa::path(post, path = "/v1/heartbeat", tag = "leases", request_body = HeartbeatBody, responses(
    (status = 200, description = "The lease continues", body = HeartbeatAnswer),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`lease-lost`, with the reason", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`: a new value or ttl was not written", body = Problem),
))]
pub async fn heartbeat(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<HeartbeatBody>,
) -> HttpResponse {
    let (key, caller) = (&body.0.key, Caller::of(&request));
    about(&app, key, None);
    act_at_home(&request, &app, &body.1, async |asked| {
        let alive = app.manager.heartbeat(key, read_heartbeat(&caller, &body.0)?, asked).await;
        let Alive { token, valid_for_ms, revived } =
            alive.map_err(|error| Problem::holder(&error, &app, key))?;
        keeps(&request, key, token);
        about_tenure(token);
        let answer = HeartbeatAnswer { key, token: token.0, valid_for_ms, revived, notices: [] };
        Ok(json(&request, StatusCode::OK, &answer))
    })
    .await
}

/// Reads a heartbeat and checks all that needs no state.
pub fn read_heartbeat(caller: &Caller, body: &HeartbeatBody) -> Result<Heartbeat, Problem> {
    let lease_id = held(caller, &body.key, &body.lease_id)?;
    let value = body.value.as_deref().map(Into::into);
    Ok(Heartbeat { value, ttl_ms: body.ttl_ms, ..Heartbeat::new(lease_id) })
}

/// Send the heartbeats of many leases in one call.
#[utoipa::path(post, path = "/v1/heartbeats", tag = "leases", request_body = BatchBody, responses(
    (status = 200, description = "One result per lease, in the order of the request; a failure of one lease does not affect the others", body = Verdicts),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
))]
pub async fn heartbeats(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<BatchBody>,
) -> HttpResponse {
    let ask = async |leases: Vec<_>, asked| app.manager.heartbeats(leases.into_iter(), asked).await;
    let following = Following::of(&request);
    batch::answer(&request, &app, &body.0, ask, |key, answer| {
        if let (Some(following), Ok(alive)) = (&following, &answer) {
            following.keep(key, alive.token);
        }
        verdict(&app, key, answer)
    })
    .await
}

fn verdict<'a>(app: &App, key: &'a str, answer: Result<Alive, HolderError>) -> Verdict<'a> {
    match answer {
        Ok(alive) => kept(key, &alive),
        Err(error) => batch::refused(key, Problem::holder(&error, app, key)),
    }
}
