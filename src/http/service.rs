//! Probes, metrics, and what the coordinator says of itself.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{body::json, problem::Problem, server::App};

/// Answer of `/livez`.
#[derive(Serialize, ToSchema)]
pub struct Live {
    /// Always true.
    pub live: bool,
}

/// Answer of `/readyz`.
#[derive(Serialize, ToSchema)]
pub struct Ready {
    /// Whether to send traffic here.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
}

/// Answer of `/v1/info`.
#[derive(Serialize, ToSchema)]
pub struct Info {
    /// The program's version.
    pub version: &'static str,
    /// This coordinator.
    pub node: String,
    /// The kind of the store.
    pub store: &'static str,
    /// The generation of tokens.
    pub epoch: u16,
    /// Names the store.
    pub store_id: String,
}

/// One coordinator.
#[derive(Serialize, ToSchema)]
pub struct NodeInfo {
    /// Its address.
    pub url: String,
    /// `alive`.
    pub state: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Whether it is the one that answers.
    pub this: bool,
}

/// Answer of `/v1/nodes`.
#[derive(Serialize, ToSchema)]
pub struct Nodes {
    /// The coordinators on this store.
    pub nodes: Vec<NodeInfo>,
}

/// Whether the process answers at all.
#[utoipa::path(get, path = "/livez", tag = "service", responses((status = 200, description = "It does", body = Live)))]
pub async fn livez(request: HttpRequest) -> HttpResponse {
    json(&request, StatusCode::OK, &Live { live: true })
}

/// Whether to send traffic here.
#[utoipa::path(get, path = "/readyz", tag = "service", responses(
    (status = 200, description = "Yes", body = Ready), (status = 503, description = "No, and why", body = Ready)))]
pub async fn readyz(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let reasons = app.manager.unready();
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(&request, status, &Ready { ready, reasons })
}

/// Metrics in Prometheus' text form.
#[utoipa::path(get, path = "/metrics", tag = "service", responses(
    (status = 200, description = "Metrics", body = String, content_type = "text/plain")))]
pub async fn metrics(app: web::Data<App>) -> HttpResponse {
    (app.before_scrape)();
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"))
        .body(app.recorder.render())
}

/// What this coordinator is.
#[utoipa::path(get, path = "/v1/info", tag = "service", responses((status = 200, description = "This coordinator", body = Info)))]
pub async fn info(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let meta = app.manager.world().store.meta();
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        node: app.source.node.clone(),
        store: app.store_kind,
        epoch: meta.epoch.0,
        store_id: meta.identity.to_string(),
    };
    json(&request, StatusCode::OK, &info)
}

/// The coordinators on this store.
#[utoipa::path(get, path = "/v1/nodes", tag = "service", responses((status = 200, description = "Those that are known", body = Nodes)))]
pub async fn nodes(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let node = NodeInfo {
        url: app.source.node.clone(),
        state: if app.manager.is_draining() { "draining" } else { "alive" },
        version: env!("CARGO_PKG_VERSION"),
        this: true,
    };
    json(&request, StatusCode::OK, &Nodes { nodes: vec![node] })
}

/// Everything else.
pub async fn not_found(request: HttpRequest) -> HttpResponse {
    Problem::no_route(request.path()).respond(&request)
}

/// A known path, another method.
pub async fn wrong_method(request: HttpRequest, allowed: &'static str) -> HttpResponse {
    let problem = Problem::wrong_method(request.method().as_str(), request.path());
    let mut response = problem.respond(&request);
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
    response
}
