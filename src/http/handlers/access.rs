//! The revocation list, and the orders that change it.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, body, http::StatusCode, web};
use bytes::Bytes;
use futures_util::future::join_all;

use super::admin::actor;
use crate::{
    access::{AccessOrder, MAX_NAME_BYTES, Revocation, Revoked, Target, Verb},
    api::{AccessAction, AccessOrderBody, Code, RevocationEntry, Revocations, limits::ORDER_MS},
    clock::rfc3339,
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        forward::{act_at_home, asked_to_confirm, forward_to_confirm},
        peer::was_forwarded,
        request::{Body, NoQuery, query},
    },
    lease::Owner,
    manager::CallError,
};

/// How long another node may take to confirm that an order is in force there.
const CONFIRM: Duration = Duration::from_secs(2);
/// How long a node waits between two looks for a list that its store does not show yet.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// List the principals and credentials that are revoked.
#[utoipa::path(get, operation_id = "list_revocations", path = "/v1/revocations", tag = "admin", responses(
    (status = 200, description = "The revocation list in force at this node: what the store has now, and what the node knows beside it if the store lost some", body = Revocations),
    (status = 400, description = "The query has a parameter, and none is accepted", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        NoQuery {} = query(&request)?;
        Caller::of(&request).has(Verb::Access)?;
        app.manager.revocations().await.map_err(|error| Problem::call(&error))
    };
    match result.await {
        Ok(list) => json(&request, StatusCode::OK, &shown(&list, app.manager.wall_ms())),
        Err(problem) => problem.respond(&request),
    }
}

/// Revoke a principal, a token or a certificate, or end that.
///
/// The order is durable and holds for all nodes, whatever their access files say. From then on, calls by the
/// principal, or with the credential, get 401, and waits and streams end. Leases are not ended: heartbeats are refused, so a lease ends with its ttl, and a
/// session too.
#[utoipa::path(post, operation_id = "order_access", path = "/v1/admin/access", tag = "admin", request_body = AccessOrderBody, responses(
    (status = 200, description = "The order is durable, and in force at this node. The list as it is then", body = Revocations),
    (status = 400, description = "A field is not valid, or finds no room in the list", body = Problem),
    (status = 409, description = "`locks-out`, `no-access-file` or `other-version`", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `order-waits`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn order(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<AccessOrderBody>,
) -> HttpResponse {
    let Body(body, bytes) = &body;
    if let Some(changes) = asked_to_confirm(&request) {
        return confirm(&request, &app, changes).await;
    }
    // The home node of the list stores the order. What it answers is the same for all nodes, so each answers by itself.
    let stored = act_at_home(&request, &app, bytes, async |asked| {
        Caller::of(&request).has(Verb::Access)?;
        let (order, lasts, by) = (order_of(body)?, lasts(body)?, actor(&request));
        app.door.intends(&request).await?;
        let said = (body.reason.as_str(), by.as_str());
        let ordered = app.manager.order_access(&order, lasts, said, asked).await;
        let (list, changed) = ordered.map_err(|error| Problem::admin(&error, &app, None))?;
        let list = shown(&list, app.manager.wall_ms());
        let in_file = body.principal.as_deref().and_then(|name| app.manager.has_principal(name));
        let answer = Revocations { changed: Some(changed), in_file, ..list };
        Ok(json(&request, StatusCode::OK, &answer))
    })
    .await;
    if stored.status() != StatusCode::OK || was_forwarded(&request) {
        return stored;
    }
    let answered = body::to_bytes(stored.into_body()).await.ok();
    let answered = answered.and_then(|body| serde_json::from_slice::<Revocations>(&body).ok());
    let Some(answered) = answered else {
        return Problem::call(&CallError::Unexpected).respond(&request);
    };
    let answer = match app.manager.revocations().await {
        Ok(list) => {
            let unconfirmed = unconfirmed(&request, &app, bytes, list.changes).await;
            let Revocations { revoked, .. } = shown(&list, app.manager.wall_ms());
            Revocations { revoked, unconfirmed, ..answered }
        }
        // The order is durable. This node cannot read which list the others must have.
        Err(_) => {
            let living = app.manager.nodes().into_iter();
            let living = living.filter(|view| !view.record.state.is_terminal());
            Revocations {
                unconfirmed: living.map(|view| view.record.url.into()).collect(),
                ..answered
            }
        }
    };
    json(&request, StatusCode::OK, &answer)
}

/// Asks each other living node to put the list with so many changes into force, or a later one. Returns the URLs of the
/// nodes that did not confirm that in time. None of them carries out the order again: another order may have come since.
async fn unconfirmed(request: &HttpRequest, app: &App, bytes: &Bytes, changes: u64) -> Vec<String> {
    let asked = app.manager.others().into_iter().map(async |home| {
        let confirming = forward_to_confirm(request, app, &home, (bytes.clone(), changes));
        let answer = tokio::time::timeout(CONFIRM, confirming).await;
        let status = answer.ok().flatten().map(|answer| answer.status().as_u16());
        // A node that has put the order into force refuses a caller that revoked itself.
        let confirmed = matches!(status, Some(200 | 401));
        let url = || home.url.as_deref().unwrap_or("a node without a URL").to_owned();
        (!confirmed).then(url)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Answers another node once the list with so many changes, or a later one, is in force here.
async fn confirm(request: &HttpRequest, app: &App, changes: u64) -> HttpResponse {
    let read = async {
        Caller::of(request).has(Verb::Access)?;
        loop {
            let list = app.manager.revocations().await.map_err(|error| Problem::call(&error))?;
            if list.changes >= changes {
                return Ok::<_, Problem>(list);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let late = || {
        Err(Problem::of(Code::OrderWaits, "the list is not in force at this node yet").retry(1000))
    };
    match tokio::time::timeout(CONFIRM, read).await.unwrap_or_else(|_| late()) {
        Ok(list) => json(request, StatusCode::OK, &shown(&list, app.manager.wall_ms())),
        Err(problem) => problem.respond(request),
    }
}

/// The order in the body.
fn order_of(body: &AccessOrderBody) -> Result<AccessOrder, Problem> {
    let AccessOrderBody { action, principal, token, certificate, .. } = body;
    let target = match (principal, token, certificate) {
        (Some(name), None, None) => {
            let judged = Owner::new(name).map_err(|error| error.to_string());
            let judged = judged.and_then(|_| match name.len() {
                0..=MAX_NAME_BYTES => Ok(()),
                _ => Err(format!("is longer than any principal's name: {MAX_NAME_BYTES} bytes")),
            });
            judged.map_err(|detail| Problem::field("principal", detail))?;
            Target::Principal(name.as_str().into())
        }
        (None, Some(token), None) => {
            Target::Token(token.parse().map_err(|detail| Problem::field("token", detail))?)
        }
        (None, None, Some(name)) => {
            Target::certificate(name).map_err(|detail| Problem::field("certificate", detail))?
        }
        _ => {
            let detail = "is required, or token or certificate instead: exactly one of the three";
            return Err(Problem::field("principal", detail));
        }
    };
    Ok(AccessOrder { target, revokes: *action == AccessAction::Revoke })
}

/// How long the order lasts, if it ends by itself.
fn lasts(body: &AccessOrderBody) -> Result<Option<Duration>, Problem> {
    let Some(for_ms) = body.for_ms else { return Ok(None) };
    if body.action == AccessAction::Unrevoke {
        return Err(Problem::field("for_ms", "does not belong to this action"));
    }
    if !ORDER_MS.contains(&for_ms) {
        let (least, most) = (ORDER_MS.start(), ORDER_MS.end());
        let detail = format!("is {for_ms}; it must be from {least} to {most}");
        return Err(Problem::field("for_ms", detail));
    }
    Ok(Some(Duration::from_millis(for_ms)))
}

/// The list, without the entries that are over.
fn shown(list: &Revoked, now_ms: u64) -> Revocations {
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let entry = |entry: &Revocation| RevocationEntry {
        principal: text(&entry.principal),
        token: text(&entry.token),
        certificate: text(&entry.certificate),
        by: entry.by.to_string(),
        reason: entry.reason.to_string(),
        at: rfc3339(entry.at_ms),
        until: entry.until_ms.map(rfc3339),
    };
    let stand = list.entries.iter().filter(|entry| !entry.is_over(now_ms));
    Revocations { revoked: stand.map(entry).collect(), ..Revocations::default() }
}
