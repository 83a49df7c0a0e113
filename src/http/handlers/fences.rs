//! Orders for fences that are not confirmed.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::admin::{actor, refused};
use crate::{
    access::Verb,
    api::{
        FenceRetryBody, FenceSkipBody, Lease, LeaseAnswer, RetriedFences, limits::MAX_REASON_BYTES,
    },
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        forward::{act_at_home, forward, unless_denied},
        peer::was_forwarded,
        request::{Body, key},
    },
    lease::MAX_KEY_BYTES,
    manager::{CallError, check_text},
};

/// Skip the unconfirmed fences of a key.
#[utoipa::path(post, path = "/v1/admin/fence-skip", tag = "admin", request_body = FenceSkipBody, responses(
    (status = 200, description = "The fences are skipped, and the key no longer waits for them", body = LeaseAnswer),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`not-fencing`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn fence_skip(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<FenceSkipBody>,
) -> HttpResponse {
    let Body(body, bytes) = &body;
    act_at_home(&request, &app, bytes, async |asked| {
        let key = key(&body.key)?;
        Caller::of(&request).may(Verb::Break, key.as_str())?;
        app.door.intends(&request).await?;
        let view = app.manager.skip_fences(&key, &body.reason, &actor(&request), asked).await;
        let view = view.map_err(|error| refused(&request, &app, &key, &error))?;
        let lease = Caller::of(&request).shown(Lease::of(&app, &key, &view));
        let answer = LeaseAnswer { lease };
        Ok(json(&request, StatusCode::OK, &answer))
    })
    .await
}

/// Run the fences that failed for good once more.
///
/// The call does not wait for their outcome. A fence that was skipped, or that has not failed, is left alone.
#[utoipa::path(post, path = "/v1/admin/fence-retry", tag = "admin", request_body = FenceRetryBody, responses(
    (status = 200, description = "The number of keys whose failed fences run once more", body = RetriedFences),
    (status = 400, description = "A field is not valid, or none says which fences are meant", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`; what was ordered before the error stays ordered", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn fence_retry(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<FenceRetryBody>,
) -> HttpResponse {
    let Body(wanted, bytes) = &body;
    if let Err(problem) = check_retry(wanted) {
        return problem.respond(&request);
    }
    let plugin = wanted.plugin.as_deref();
    let Some(named) = &wanted.key else { return retry_all(&request, &app, &body).await };
    act_at_home(&request, &app, bytes, async |asked| {
        let key = key(named)?;
        Caller::of(&request).may(Verb::Admin, key.as_str())?;
        app.door.intends(&request).await?;
        let retried = app.manager.retry_fences(&key, plugin, asked).await;
        let retried = retried.map_err(|error| refused(&request, &app, &key, &error))?;
        let answer = RetriedFences { retried: retried.into(), more: 0 };
        Ok(json(&request, StatusCode::OK, &answer))
    })
    .await
}

/// Checks all that needs no state.
pub fn check_retry(body: &FenceRetryBody) -> Result<(), Problem> {
    check_text("reason", &body.reason, MAX_REASON_BYTES).map_err(|why| Problem::invalid(&why))?;
    if let Some(named) = &body.key {
        key(named)?;
    }
    if let Some(prefix) = body.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
        check_text("prefix", prefix, MAX_KEY_BYTES).map_err(|why| Problem::invalid(&why))?;
    }
    match body {
        FenceRetryBody { key: Some(_), prefix: Some(_), .. } => {
            Err(Problem::field("prefix", "cannot be given together with `key`"))
        }
        FenceRetryBody { key: None, prefix: None, plugin: None, .. } => {
            Err(Problem::field("key", "is missing: give `key`, `prefix` or `plugin`"))
        }
        _ => Ok(()),
    }
}

/// The same for all keys with a prefix, at every node.
async fn retry_all(request: &HttpRequest, app: &App, body: &Body<FenceRetryBody>) -> HttpResponse {
    let received = app.manager.now();
    let Body(wanted, bytes) = body;
    let (prefix, plugin) = (wanted.prefix.as_deref().unwrap_or_default(), wanted.plugin.as_deref());
    let result = async {
        let caller = Caller::of(request);
        caller.may_all_of(Verb::Admin, prefix)?;
        app.door.intends(request).await?;
        let done = app.manager.retry_failed_fences(prefix, plugin, received).await;
        let done = done.map_err(|error| Problem::admin(&error, app, None))?;
        caller.is_about(done.retried);
        let mut all = RetriedFences { retried: done.retried as u64, more: 0 };
        if caller.reads_all_of("") {
            all.more = done.more as u64;
        }
        let others = if was_forwarded(request) { Vec::new() } else { app.manager.others() };
        for home in others {
            let answer = match forward(request, app, &home, bytes.clone()).await {
                Some(answer) => Some(unless_denied(answer, &home).await?),
                None => None,
            };
            let part = match answer {
                Some(answer) if answer.status().is_success() => {
                    answer.json::<RetriedFences>().await.ok()
                }
                _ => None,
            };
            // A repeated call does the rest.
            let part = part.ok_or_else(|| Problem::call(&CallError::Elsewhere(home)))?;
            all.retried += part.retried;
        }
        Ok::<_, Problem>(all)
    };
    match result.await {
        Ok(all) => json(request, StatusCode::OK, &all),
        Err(problem) => problem.respond(request),
    }
}
