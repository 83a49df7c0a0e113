//! Probes, metrics, and information about the coordinators.

use std::collections::BTreeSet;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{body::json, problem::Problem, server::App};
use crate::{lease::Nonce, manager::NodeView};

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
    /// `alive`; `draining`: it is stopping; `drained`: it has left; `dead`: it let its record run out.
    pub state: &'static str,
    /// Its version.
    pub version: String,
    /// Names this run of it.
    pub incarnation: String,
    /// How many leases are at home at it, when it last wrote its record.
    pub leases: u32,
    /// Milliseconds until its record runs out unless it is renewed; null where there is none.
    pub runs_out_in_ms: Option<u64>,
    /// Whether it is the one that answers.
    pub this: bool,
    /// Another living one says that it is reached at the same address: calls for one reach the other, and
    /// `node.advertise_url` of one of them is wrong.
    pub address_shared: bool,
    /// It goes by other policies or plugins than the one that answers.
    pub rules_differ: bool,
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
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        node: app.source.node.clone(),
        store: app.store_kind,
        epoch: app.manager.epoch().0,
        store_id: app.source.identity().to_string(),
    };
    json(&request, StatusCode::OK, &info)
}

/// The coordinators on this store.
#[utoipa::path(get, path = "/v1/nodes", tag = "service", responses((status = 200, description = "Those that are known", body = Nodes)))]
pub async fn nodes(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let shared = app.manager.shared_addresses();
    let odd = app.manager.nodes_with_other_rules();
    let of = |view: &NodeView| NodeInfo::of(view, &shared, &odd);
    let mut nodes: Vec<NodeInfo> = app.manager.nodes().iter().map(of).collect();
    if nodes.is_empty() {
        // This store has no node records: a single process uses it.
        nodes.push(NodeInfo {
            url: app.source.node.clone(),
            state: "alive",
            version: env!("CARGO_PKG_VERSION").to_owned(),
            incarnation: app.manager.incarnation().to_string(),
            leases: app.manager.homed(),
            runs_out_in_ms: None,
            this: true,
            address_shared: false,
            rules_differ: false,
        });
    }
    if app.manager.is_draining() {
        nodes[0].state = "draining";
    }
    json(&request, StatusCode::OK, &Nodes { nodes })
}

impl NodeInfo {
    fn of(view: &NodeView, shared: &BTreeSet<Box<str>>, odd: &BTreeSet<Nonce>) -> Self {
        let NodeView { record, this, runs_out_in_ms } = view;
        Self {
            url: record.url.to_string(),
            state: record.state.as_str(),
            version: record.version.to_string(),
            incarnation: record.incarnation.to_string(),
            leases: record.load,
            runs_out_in_ms: (!record.state.is_terminal()).then_some(*runs_out_in_ms),
            this: *this,
            address_shared: !record.state.is_terminal() && shared.contains(&record.url),
            rules_differ: odd.contains(&record.incarnation),
        }
    }
}

/// Answers a request for a path that does not exist.
pub async fn not_found(request: HttpRequest) -> HttpResponse {
    Problem::no_route(request.path()).respond(&request)
}

/// Answers a request for a known path with a method that it does not accept.
pub async fn wrong_method(request: HttpRequest, allowed: &'static str) -> HttpResponse {
    let problem = Problem::wrong_method(request.method().as_str(), request.path());
    let mut response = problem.respond(&request);
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static(allowed));
    response
}
