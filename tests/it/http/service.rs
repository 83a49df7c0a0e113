//! Probes, metrics, information and pages.

use serde_json::json;

use crate::support::harness::{Connection, Server};

#[tokio::test]
async fn probes_information_and_pages_answer() {
    let server = Server::start();
    assert_eq!(server.get("/livez").await.ok()["live"], true);
    let ready = server.get("/readyz").await.ok();
    assert_eq!(ready, json!({ "ready": true, "reasons": [] }));
    let info = server.get("/v1/info").await.ok();
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["store"], "embedded");
    assert!(info["epoch"].is_u64() && info["node"].is_string());
    let nodes = server.get("/v1/nodes").await.ok();
    assert_eq!(nodes["nodes"].as_array().expect("nodes").len(), 1);
    let document = server.get("/openapi.json").await.ok();
    assert!(document["openapi"].as_str().expect("a version").starts_with('3'));
    for path in document["paths"].as_object().expect("paths").keys() {
        assert!(path.starts_with('/'), "{path}");
    }
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").expect("a type").starts_with("text/html"));
    assert_eq!(server.get("/docs").await.status, 302);
    let docs = server.get("/docs/").await;
    assert_eq!(docs.status, 200);
    for text in [page.text(), docs.text()] {
        assert!(!text.contains("https://"), "works offline");
    }
}

#[tokio::test]
async fn the_page_about_the_store_has_another_identity_in_each_directory() {
    let (one, two) = (Server::start(), Server::start());
    let id = async |server: &Server| server.get("/v1/info").await.ok()["store_id"].clone();
    assert_ne!(id(&one).await, id(&two).await);
}

#[tokio::test]
async fn known_series_exist_from_the_start() {
    let server = Server::start();
    let reply = server.get("/metrics").await;
    assert!(reply.header("content-type").expect("a type").starts_with("text/plain"));
    let text = reply.text();
    let series = [
        "tenure_lease_acquisitions_total",
        "tenure_lease_heartbeats_total",
        "tenure_lease_ended_total",
        "tenure_lease_transfers_total",
        "tenure_leases_held",
        "tenure_lease_waiters",
        "tenure_actors",
        "tenure_actor_restarts_total",
        "tenure_events_published_total",
        "tenure_event_subscribers",
        "tenure_event_subscribers_dropped_total",
        "tenure_build_info",
        "process_",
    ];
    for series in series {
        let found = text.lines().any(|line| line.starts_with(series));
        assert!(found, "{series} is missing");
    }
}

#[tokio::test]
async fn the_gauges_follow_the_leases_over_a_restart_too() {
    let server = Server::start();
    let a = server.acquire("a", "w", 60_000).await;
    server.acquire("b", "w", 60_000).await;
    server.acquire("c", "w", 60_000).await;
    server.release(&a).await;
    let held = async |server: &Server| server.metric("tenure_leases_held").await;
    crate::support::harness::eventually("two are held", async || held(&server).await == 2.0).await;
    let server = server.kill().restart();
    crate::support::harness::eventually("two are held", async || held(&server).await == 2.0).await;
}

#[tokio::test]
async fn other_paths_and_methods_are_problems() {
    let server = Server::start();
    for path in ["/nowhere", "/v1", "/v1/", "/v2/acquire", "/v1/acquire/", "/v1/sessions/", "//"] {
        server.get(path).await.problem(404, "no-such-path");
    }
    for (method, path) in [
        ("GET", "/v1/acquire"),
        ("PUT", "/v1/acquire"),
        ("DELETE", "/v1/release"),
        ("POST", "/v1/leases"),
        ("DELETE", "/v1/leases/k"),
        ("POST", "/livez"),
        ("POST", "/v1/events"),
        ("BREW", "/v1/heartbeat"),
    ] {
        server.call(method, path, b"{}").await.problem(405, "method-not-allowed");
    }
}

#[tokio::test]
async fn many_requests_on_one_connection_are_answered_in_order() {
    let server = Server::start();
    let mut connection = Connection::open(server.addr).await;
    for n in 0..20 {
        let body = json!({ "key": format!("k{n}"), "owner": "w", "ttl_ms": 60_000 });
        connection.send("POST", "/v1/acquire", &[], body.to_string().as_bytes()).await;
    }
    for n in 0..20 {
        assert_eq!(connection.receive().await.ok()["key"], format!("k{n}"));
    }
}
