//! Pools: their members, and how many keys each member holds.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use crate::api::{Pool, PoolPlan, Pools};
use crate::http::{
    answer::{Problem, json},
    app::App,
    caller::Caller,
    request::{NoQuery, query},
};
use crate::manager::PoolShown;

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
        Ok(pool) => json(&request, StatusCode::OK, &Pool::of(&app, pool)),
        Err(problem) => problem.respond(&request),
    }
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
    match found(&request, &app, &path).await {
        Ok(pool) => {
            let run = app.manager.plan_of_pool(&path);
            json(&request, StatusCode::OK, &PoolPlan::of(&app, pool, run))
        }
        Err(problem) => problem.respond(&request),
    }
}

/// The pool with this name, if the caller may see it.
async fn found(request: &HttpRequest, app: &App, name: &str) -> Result<PoolShown, Problem> {
    NoQuery {} = query(request)?;
    let found = app.manager.pool(name).await.map_err(|error| Problem::call(&error))?;
    let caller = Caller::of(request);
    found.filter(|_| caller.reads_pool(app, name)).ok_or_else(|| {
        let mut known = app.manager.pool_names();
        known.retain(|pool| caller.reads_pool(app, pool));
        Problem::unknown_pool(name, &known)
    })
}
