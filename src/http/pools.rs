//! Pools: who works for them, and who has how much.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};

use super::{
    body::json,
    problem::Problem,
    server::App,
    wire::{PoolWire, PoolsWire},
};

/// List the pools, each with its members.
#[utoipa::path(get, path = "/v1/pools", tag = "sessions", responses(
    (status = 200, description = "All of them, as this node knows them", body = PoolsWire),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn list(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    match app.manager.pools().await {
        Ok(pools) => {
            let pools = pools.into_iter().map(|pool| PoolWire::of(&app, pool)).collect();
            json(&request, StatusCode::OK, &PoolsWire { pools })
        }
        Err(trouble) => Problem::trouble(&trouble).respond(&request),
    }
}

/// Look at a pool.
#[utoipa::path(get, path = "/v1/pools/{pool}", tag = "sessions",
    params(("pool" = String, Path, description = "The pool's name")), responses(
    (status = 200, description = "The pool, as this node knows it", body = PoolWire),
    (status = 404, description = "`unknown-pool`: no policy names it", body = Problem),
    (status = 503, description = "`store-unavailable`", body = Problem),
))]
pub async fn get(
    request: HttpRequest,
    app: web::Data<App>,
    path: web::Path<String>,
) -> HttpResponse {
    match app.manager.pool(&path).await {
        Ok(Some(pool)) => json(&request, StatusCode::OK, &PoolWire::of(&app, pool)),
        Ok(None) => Problem::unknown_pool(&path, &app.manager.pool_names()).respond(&request),
        Err(trouble) => Problem::trouble(&trouble).respond(&request),
    }
}
