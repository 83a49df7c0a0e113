//! The administrators' calls. Each of them leaves an event with its actor and reason.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header::HeaderValue},
    web,
};

use crate::{
    access::Verb,
    api::{
        DrainBody, Drained, ForgetBody, Forgot, Lease, LeaseAnswer, PinBody, RevokeBody, Revoked,
    },
    http::{
        answer::{Problem, json},
        app::App,
        caller::{Caller, PeerUid},
        forward::{act_at_home, forward, unless_denied},
        peer::{FORWARDED_FOR, was_forwarded},
        request::{Body, key, owner},
    },
    lease::{Key, Revoke},
    manager::{AdminError, CallError, DrainedOwner, ForgottenKeys},
};

/// The actor of a call: the caller's principal, and its address as seen by the node that the call was sent to, or its
/// user on the Unix socket.
pub(super) fn actor(request: &HttpRequest) -> String {
    let user = || PeerUid::of(request).map(|PeerUid(uid)| format!("user {uid}"));
    let peer = request.peer_addr().map(|peer| peer.ip().to_string()).or_else(user);
    let peer = peer.unwrap_or_else(|| "unknown".to_owned());
    let asked = request.headers().get(FORWARDED_FOR).filter(|_| was_forwarded(request));
    let from = match asked.map(HeaderValue::to_str) {
        Some(Ok(asked)) => format!("{:.64} via {peer}", asked),
        _ => peer,
    };
    match Caller::of(request).name() {
        Some(name) => format!("{name} at {from}"),
        None => from,
    }
}

/// Why an order for a key is not carried out.
pub(super) fn refused(request: &HttpRequest, app: &App, key: &Key, error: &AdminError) -> Problem {
    Caller::of(request).told(key.as_str(), Problem::admin(error, app, Some(key)))
}

/// Revoke a lease: order the end of its tenure.
#[utoipa::path(post, path = "/v1/admin/revoke", tag = "admin", request_body = RevokeBody, responses(
    (status = 200, description = "The order is durable; `ends_in_ms` says when the tenure ends", body = Revoked),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 409, description = "`not-held` or `pinned`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn revoke(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<RevokeBody>,
) -> HttpResponse {
    let Body(body, bytes) = &body;
    act_at_home(&request, &app, bytes, async |asked| {
        let key = key(&body.key)?;
        let verb = if body.immediately { Verb::Break } else { Verb::Admin };
        Caller::of(&request).may(verb, key.as_str())?;
        app.door.intends(&request).await?;
        let order = Revoke {
            floor: None,
            reason: body.reason.as_str().into(),
            actor: actor(&request).into(),
            immediately: body.immediately,
            owner: None,
            token: None,
        };
        let ends_in_ms = app.manager.revoke(&key, order, asked).await;
        let ends_in_ms = ends_in_ms.map_err(|error| refused(&request, &app, &key, &error))?;
        Ok(json(&request, StatusCode::OK, &Revoked { revoked: true, ends_in_ms }))
    })
    .await
}

/// Forget the free keys that begin with a prefix, up to 10 240 per call.
///
/// The answer to a caller without the right to read all keys with the prefix has no `next`: one call goes through all
/// of them.
#[utoipa::path(post, operation_id = "forget_keys", path = "/v1/admin/forget", tag = "admin", request_body = ForgetBody, responses(
    (status = 200, description = "The numbers of keys that were and were not forgotten", body = Forgot),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `store-frozen`, `node-lapsed` or `key-resting`; keys that were forgotten before the error stay forgotten", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn forget(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<ForgetBody>,
) -> HttpResponse {
    let (received, ForgetBody { prefix, reason, after }) = (app.manager.now(), &body.0);
    let (caller, by) = (Caller::of(&request), actor(&request));
    if let Err(problem) = caller.may_all_of(Verb::Admin, prefix) {
        return problem.respond(&request);
    }
    if let Err(problem) = app.door.intends(&request).await {
        return problem.respond(&request);
    }
    let looks = caller.looks();
    let (mut all, mut after) = (Forgot { forgotten: 0, left: 0, next: None }, after.clone());
    loop {
        match app.manager.forget_counted(prefix, after, (reason, &by), received, &looks).await {
            Ok(ForgottenKeys { forgotten, left, next }) => {
                caller.is_about(forgotten);
                all.forgotten += forgotten as u64;
                all.left += left as u64;
                after = next;
            }
            Err(error) => return Problem::admin(&error, &app, None).respond(&request),
        }
        // The position is a key, so a caller that may not read the keys is not told where to go on.
        if after.is_none() || caller.reads_all_of(prefix) {
            return json(&request, StatusCode::OK, &Forgot { next: after, ..all });
        }
    }
}

/// Pin a key, so that its tenures do not expire.
#[utoipa::path(post, path = "/v1/admin/pin", tag = "admin", request_body = PinBody, responses(
    (status = 200, description = "The key is pinned under this name, since this call or an earlier one", body = LeaseAnswer),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn pin(request: HttpRequest, app: web::Data<App>, body: Body<PinBody>) -> HttpResponse {
    pins(request, app, body, true).await
}

/// Remove a pin from a key.
#[utoipa::path(post, path = "/v1/admin/unpin", tag = "admin", request_body = PinBody, responses(
    (status = 200, description = "The key is not pinned under this name", body = LeaseAnswer),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn unpin(request: HttpRequest, app: web::Data<App>, body: Body<PinBody>) -> HttpResponse {
    pins(request, app, body, false).await
}

async fn pins(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<PinBody>,
    set: bool,
) -> HttpResponse {
    let Body(body, bytes) = &body;
    act_at_home(&request, &app, bytes, async |asked| {
        let key = key(&body.key)?;
        Caller::of(&request).may(Verb::Admin, key.as_str())?;
        app.door.intends(&request).await?;
        let actor = actor(&request);
        let view = if set {
            app.manager.pin(&key, &body.by, &actor, asked).await
        } else {
            app.manager.unpin(&key, &body.by, &actor, asked).await
        };
        let view = view.map_err(|error| refused(&request, &app, &key, &error))?;
        let lease = Caller::of(&request).shown(Lease::of(&app, &key, &view));
        let answer = LeaseAnswer { lease };
        Ok(json(&request, StatusCode::OK, &answer))
    })
    .await
}

/// Revoke all leases of an owner gracefully. Its sessions in pools with `balance` are asked to hand over first.
#[utoipa::path(post, operation_id = "drain_owner", path = "/v1/admin/drain", tag = "admin", request_body = DrainBody, responses(
    (status = 200, description = "The numbers of leases and sessions that the order concerns", body = Drained),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable` or `home-unreachable`; what was ordered before the error stays ordered", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn drain(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<DrainBody>,
) -> HttpResponse {
    let received = app.manager.now();
    let Body(wanted, bytes) = &body;
    let result = async {
        let owner = owner("owner", &wanted.owner)?;
        // The owner may hold any key.
        let caller = Caller::of(&request);
        caller.may_all_of(Verb::Admin, "")?;
        app.door.intends(&request).await?;
        let looks = caller.looks();
        let drained =
            app.manager.drain_owner_counted(&owner, &actor(&request), received, &looks).await;
        let mut drained = drained.map_err(|error| Problem::admin(&error, &app, None))?;
        caller.is_about(drained.revoked + drained.asked);
        // All other nodes are asked: this node may not know of all their keys yet.
        let others = if was_forwarded(&request) { Vec::new() } else { app.manager.others() };
        for home in others {
            let answer = match forward(&request, &app, &home, bytes.clone()).await {
                Some(answer) => Some(unless_denied(answer, &home).await?),
                None => None,
            };
            let part = match answer {
                Some(answer) if answer.status().is_success() => answer.json::<Drained>().await.ok(),
                _ => None,
            };
            // A repeated call does the rest.
            let part = part.ok_or_else(|| Problem::call(&CallError::Elsewhere(home)))?;
            drained.revoked += part.revoked;
            drained.pinned += part.pinned;
            drained.asked += part.draining;
        }
        Ok::<_, Problem>(drained)
    };
    match result.await {
        Ok(DrainedOwner { revoked, pinned, asked }) => {
            json(&request, StatusCode::OK, &Drained { revoked, pinned, draining: asked })
        }
        Err(problem) => problem.respond(&request),
    }
}
