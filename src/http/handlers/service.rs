//! Probes, metrics, and information about the coordinators.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web,
};

use crate::{
    access::Verb,
    api::{Info, Live, Node, Nodes, Ready},
    http::{
        answer::{Problem, json},
        app::App,
        caller::Caller,
        views::access_digest,
    },
    manager::NodeView,
};

/// Check whether the process answers.
#[utoipa::path(get, path = "/livez", tag = "service", responses((status = 200, description = "The process answers", body = Live)))]
pub async fn livez(request: HttpRequest) -> HttpResponse {
    json(&request, StatusCode::OK, &Live { live: true })
}

/// Check whether traffic may be sent to this node.
#[utoipa::path(get, path = "/readyz", tag = "service", responses(
    (status = 200, description = "Traffic may be sent to this node", body = Ready), (status = 503, description = "No traffic may be sent to this node, for the given reasons", body = Ready)))]
pub async fn readyz(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let reasons = app.manager.unready();
    let ready = reasons.is_empty();
    // The reasons name stores and nodes.
    let reasons =
        if Caller::of(&request).has(Verb::Observe).is_ok() { reasons } else { Vec::new() };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(&request, status, &Ready { ready, reasons })
}

/// Get the metrics of this node.
#[utoipa::path(get, path = "/metrics", tag = "service", responses(
    (status = 200, description = "The metrics, in the Prometheus text format", body = String, content_type = "text/plain")))]
pub async fn metrics(app: web::Data<App>) -> HttpResponse {
    (app.before_scrape)();
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"))
        .body(app.recorder.render())
}

/// Describe this coordinator.
#[utoipa::path(get, path = "/v1/info", tag = "service", responses((status = 200, description = "The program, its URL and its store", body = Info)))]
pub async fn info(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let info = Info {
        version: env!("CARGO_PKG_VERSION"),
        node: app.source.node.clone(),
        store: app.store_kind,
        epoch: app.manager.epoch().0,
        store_id: app.source.identity().to_string(),
        open: app.access.is_none(),
        node_ttl_ms: app
            .manager
            .node_ttl()
            .map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
    };
    json(&request, StatusCode::OK, &info)
}

/// List the coordinators on this store.
#[utoipa::path(get, path = "/v1/nodes", tag = "service", responses((status = 200, description = "The coordinators that this node knows", body = Nodes)))]
pub async fn nodes(request: HttpRequest, app: web::Data<App>) -> HttpResponse {
    let shared = app.manager.shared_addresses();
    let odd = app.manager.nodes_with_other_rules();
    let other_access = app.manager.nodes_with_other_access();
    let of = |view: &NodeView| Node::of(view, &shared, &odd, &other_access);
    let mut nodes: Vec<Node> = app.manager.nodes().iter().map(of).collect();
    if nodes.is_empty() {
        // This store has no node records: a single process uses it.
        nodes.push(Node {
            url: app.source.node.clone(),
            state: "alive".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            incarnation: app.manager.incarnation().to_string(),
            leases: app.manager.homed().into(),
            runs_out_in_ms: None,
            this: true,
            address_shared: false,
            rules_differ: false,
            access_digest: access_digest(app.manager.access_digest()),
            access_differs: false,
        });
    }
    if app.manager.is_draining() {
        nodes[0].state = "draining".to_owned();
    }
    json(&request, StatusCode::OK, &Nodes { nodes })
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
