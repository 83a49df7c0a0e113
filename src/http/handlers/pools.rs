//! Pools: their members, and how many keys each member holds.

use std::time::Duration;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use bytes::Bytes;

use super::admin::actor;
use crate::{
    access::Verb,
    api::{Pool, PoolAction, PoolOrderBody, PoolPlan, Pools, limits::ORDER_MS},
    http::{
        answer::{Problem, json, rendered_json},
        app::App,
        caller::Caller,
        forward::act_at_home,
        request::{Body, NoQuery, key, owner, query},
    },
    lease::PoolOrder,
    manager::PoolShown,
};

/// List the pools with their members.
#[utoipa::path(get, operation_id = "list_pools", path = "/v1/pools", tag = "sessions", responses(
    (status = 200, description = "All pools, as this node knows them", body = Pools),
    (status = 400, description = "The query has a parameter, and none is accepted", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let result = async {
        NoQuery {} = query(&request)?;
        let mut pools = app.manager.pools().await.map_err(|error| Problem::call(&error))?;
        let caller = Caller::of(&request);
        caller.looked_at(pools.iter().map(members).sum());
        pools.retain(|pool| caller.reads_pool(&app, &pool.pool));
        Ok::<_, Problem>(pools)
    };
    match result.await {
        Ok(pools) => {
            let pools = pools.into_iter().map(|pool| Pool::of(&app, pool)).collect();
            json(&request, StatusCode::OK, &Pools { pools })
        }
        Err(problem) => problem.respond(&request),
    }
}

/// Get one pool with its members.
#[utoipa::path(get, operation_id = "get_pool", path = "/v1/pools/{pool}", tag = "sessions",
    params(("pool" = String, Path, description = "The pool's name")), responses(
    (status = 200, description = "The pool, as this node knows it", body = Pool),
    (status = 404, description = "`unknown-pool`: no policy names it", body = Problem),
    (status = 400, description = "The query has a parameter, and none is accepted", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    match found(&request, &app, &path).await {
        Ok(pool) => {
            Caller::of(&request).looked_at(members(&pool));
            json(&request, StatusCode::OK, &Pool::of(&app, pool))
        }
        Err(problem) => problem.respond(&request),
    }
}

/// The members that are looked at to show a pool.
fn members(pool: &PoolShown) -> usize {
    pool.view.as_ref().map_or(0, |view| view.members.len())
}

/// Get what would be done now for the balance of a pool, without doing it.
#[utoipa::path(get, operation_id = "plan_pool", path = "/v1/pools/{pool}/plan", tag = "sessions",
    params(("pool" = String, Path, description = "The pool's name")), responses(
    (status = 200, description = "The leases that members would be asked for, each with the reason", body = PoolPlan),
    (status = 404, description = "`unknown-pool`: no policy names it", body = Problem),
    (status = 400, description = "The query has a parameter, and none is accepted", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn plan(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    match planned(&request, &app, &path).await {
        Ok(body) => rendered_json(&request, StatusCode::OK, body),
        Err(problem) => problem.respond(&request),
    }
}

/// The plan of a pool, as JSON. Many readers get one plan, which is rendered once.
async fn planned(request: &HttpRequest, app: &App, name: &str) -> Result<Bytes, Problem> {
    NoQuery {} = query(request)?;
    let caller = Caller::of(request);
    let exists = app.manager.pool_names().iter().any(|pool| **pool == *name);
    if !exists || !caller.reads_pool(app, name) {
        return Err(unknown(&caller, app, name));
    }
    let run = app.manager.plan_of_pool(name).await;
    // The plan looks at each key and each member.
    caller.looked_at(run.as_ref().map_or(0, |run| run.view.keys + run.view.members.len()));
    if let Some(rendered) = run.as_ref().and_then(|run| run.rendered.get()) {
        return Ok(rendered.clone());
    }
    let plan = PoolPlan::of(app, found(request, app, name).await?, run.as_deref());
    let body = Bytes::from(serde_json::to_vec(&plan).unwrap_or_default());
    Ok(run.map_or_else(|| body.clone(), |run| run.rendered.get_or_init(|| body.clone()).clone()))
}

/// Order something for a pool, such as to freeze it or to pause one of its keys.
///
/// The order is durable and holds for all nodes. It lasts until the order that ends it, or until its own end.
#[utoipa::path(post, operation_id = "order_pool", path = "/v1/admin/pool", tag = "admin", request_body = PoolOrderBody, responses(
    (status = 200, description = "The order is durable. The pool, as this node knows it; `{}` if the caller may not read every key of the pool", body = Pool),
    (status = 400, description = "A field is not valid", body = Problem),
    (status = 404, description = "`unknown-pool`: no policy names it", body = Problem),
    (status = 413, description = "`body-too-large`", body = Problem),
    (status = 429, description = "`busy`", body = Problem),
    (status = 503, description = "`audit-unavailable`, `store-unavailable`, `order-waits`, `home-unreachable`, `node-lapsed`, `key-resting` or `record-quarantined`", body = Problem),
    (status = 507, description = "`store-full`", body = Problem),
))]
pub async fn order(
    request: HttpRequest,
    app: web::Data<App>,
    body: Body<PoolOrderBody>,
) -> HttpResponse {
    let Body(body, bytes) = &body;
    act_at_home(&request, &app, bytes, async |asked| {
        let caller = Caller::of(&request);
        may_order(&caller, &app, &body.pool)?;
        let (order, lasts, by) = (order_of(body)?, lasts(body)?, actor(&request));
        app.door.intends(&request).await?;
        let said = (body.reason.as_str(), by.as_str());
        let ordered = app.manager.order_pool(&body.pool, &order, lasts, said, asked).await;
        ordered.map_err(|error| Problem::admin(&error, &app, None))?;
        if !caller.reads_pool(&app, &body.pool) {
            return Ok(json(&request, StatusCode::OK, &serde_json::Map::new()));
        }
        let pool = app.manager.pool(&body.pool).await.map_err(|error| Problem::call(&error))?;
        let pool = pool.ok_or_else(|| unknown(&caller, &app, &body.pool))?;
        Ok(json(&request, StatusCode::OK, &Pool::of(&app, pool)))
    })
    .await
}

/// Requires the right to order something for every key of a pool. A caller without a part in the pool is refused as if
/// there were no such pool. Another one is told which prefix it lacks only if it may read the pool.
fn may_order(caller: &Caller, app: &App, pool: &str) -> Result<(), Problem> {
    let (prefixes, reads) = (app.manager.prefixes_of_pool(pool), caller.reads_pool(app, pool));
    let has_part = reads || prefixes.iter().any(|prefix| caller.may_some_of(Verb::Admin, prefix));
    if !has_part || app.manager.check_pool(pool).is_err() {
        return Err(unknown(caller, app, pool));
    }
    let ordered = prefixes.iter().try_for_each(|prefix| caller.may_all_of(Verb::Admin, prefix));
    ordered.map_err(|problem| match reads {
        true => problem,
        false => caller.refuse(Verb::Admin, &format!("for all keys of the pool {pool:?}")),
    })
}

/// How long the order lasts, if it ends by itself.
fn lasts(body: &PoolOrderBody) -> Result<Option<Duration>, Problem> {
    let Some(for_ms) = body.for_ms else { return Ok(None) };
    let may_end = matches!(
        body.action,
        PoolAction::Freeze | PoolAction::Cordon | PoolAction::Pause | PoolAction::Move
    );
    if !may_end {
        return Err(Problem::field("for_ms", "does not belong to this action"));
    }
    if !ORDER_MS.contains(&for_ms) {
        let (least, most) = (ORDER_MS.start(), ORDER_MS.end());
        return Err(Problem::field(
            "for_ms",
            format!("is {for_ms}; it must be from {least} to {most}"),
        ));
    }
    Ok(Some(Duration::from_millis(for_ms)))
}

/// What the body orders. It names an owner or a key where the action needs one, and nowhere else.
fn order_of(body: &PoolOrderBody) -> Result<PoolOrder, Problem> {
    let PoolOrderBody { action, owner: named, key: of, .. } = body;
    let is_of_owner =
        matches!(action, PoolAction::Cordon | PoolAction::Uncordon | PoolAction::Move);
    let is_of_key = matches!(action, PoolAction::Pause | PoolAction::Move | PoolAction::Resume);
    for (field, given, wanted) in
        [("owner", named.is_some(), is_of_owner), ("key", of.is_some(), is_of_key)]
    {
        match (given, wanted) {
            (true, false) => return Err(Problem::field(field, "does not belong to this action")),
            (false, true) => return Err(Problem::field(field, "is required for this action")),
            _ => {}
        }
    }
    let the_owner = || owner("owner", named.as_deref().unwrap_or_default());
    let the_key = || key(of.as_deref().unwrap_or_default());
    Ok(match action {
        PoolAction::Freeze => PoolOrder::Freeze,
        PoolAction::Thaw => PoolOrder::Thaw,
        PoolAction::Cordon => PoolOrder::Cordon(the_owner()?),
        PoolAction::Uncordon => PoolOrder::Uncordon(the_owner()?),
        PoolAction::Pause => PoolOrder::Pause(the_key()?),
        PoolAction::Move => PoolOrder::Move(the_key()?, the_owner()?),
        PoolAction::Resume => PoolOrder::Resume(the_key()?),
        PoolAction::Rebalance => PoolOrder::Rebalance,
        PoolAction::EndGuard => PoolOrder::EndGuard,
    })
}

/// The pool with this name, if the caller may see it.
async fn found(request: &HttpRequest, app: &App, name: &str) -> Result<PoolShown, Problem> {
    NoQuery {} = query(request)?;
    let found = app.manager.pool(name).await.map_err(|error| Problem::call(&error))?;
    let caller = Caller::of(request);
    let found = found.filter(|_| caller.reads_pool(app, name));
    found.ok_or_else(|| unknown(&caller, app, name))
}

/// That no policy names the pool. The caller is told of those that it may see.
pub(super) fn unknown(caller: &Caller, app: &App, name: &str) -> Problem {
    let mut known = app.manager.pool_names();
    known.retain(|pool| caller.reads_pool(app, pool));
    Problem::unknown_pool(name, &known)
}
