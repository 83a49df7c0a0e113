//! What happens appears by itself, and what happened before is there.

use serde_json::json;

use super::shown::Page;
use crate::support::harness::Server;

#[tokio::test]
async fn a_take_over_appears_on_the_overview_and_on_the_page_of_the_lease() {
    let server = Server::start();
    server.acquire("jobs/1", "first", 600_000).await;
    let mut page = Page::open(&server, "").await;
    // It happened before the page was opened.
    page.shows("#latest tbody tr", "first").await;
    page.shows("#figures", "held").await;
    let revoke = json!({ "key": "jobs/1", "reason": "maintenance", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    let grant = server.acquire("jobs/1", "second", 600_000).await;
    page.shows("#latest tbody tr:first-child", "second").await;
    page.shows("#latest tbody tr", "maintenance").await;

    page.click("#latest tbody tr:first-child a.key").await;
    page.shows("#facts", "second").await;
    page.shows("#facts", &grant.token.to_string()).await;
    // Its former owner: how long, how it ended, and why.
    page.shows("main tbody tr", "goes on").await;
    for part in ["first", "revoked", "maintenance"] {
        page.shows("main tbody tr:nth-child(2)", part).await;
    }
    page.shows("main", "This is the whole history of the key.").await;
    server.release(&grant).await;
    page.shows("#facts", "free").await;
    server.acquire("jobs/1", "third", 600_000).await;
    page.shows("#facts", "third").await;
    page.is_clean().await;
}

#[tokio::test]
async fn the_gate_the_queue_and_the_value_of_a_lease_are_on_its_page() {
    let server = Server::start();
    let body =
        json!({ "key": "a b/ü?#1", "owner": "w", "ttl_ms": 600_000, "value": "line 1\nline 2" });
    server.post("/v1/acquire", &body).await.ok();
    let waits = json!({ "key": "a b/ü?#1", "owner": "v", "ttl_ms": 600_000, "wait_ms": 60_000 });
    let _waiting = server.park("/v1/acquire", &waits).await;
    let mut page = Page::open(&server, "#/leases").await;
    page.click("#leases a.key").await;
    page.shows("#facts", "1 caller waits").await;
    page.shows("#facts pre", "line 1\nline 2").await;
    page.click("main details summary").await;
    page.shows("main details pre", "/v1/check").await;
    page.is_clean().await;
}

#[tokio::test]
async fn pools_sessions_and_nodes_have_their_views() {
    let config = "[[policy]]\nprefix = \"s/\"\npool = \"shards\"\nbalance = true\n";
    let server = Server::configured(config);
    let mut sessions = Vec::new();
    for owner in ["worker-10", "worker-2"] {
        let session = server.session(owner, 600_000, json!({ "pool": "shards" })).await;
        server.acquire_under(&format!("s/{owner}"), owner, &session).await;
        sessions.push(session);
    }
    let mut page = Page::open(&server, "#/pools").await;
    page.shows("#pools .pool", "2 members").await;
    page.until("document.querySelectorAll('#pools .bar').length === 2").await;
    // By owner, and 2 comes before 10.
    page.shows("#pools .members li:first-child", "worker-2").await;
    page.until(
        "[...document.querySelectorAll('#pools .bar')]\
         .every((one) => one.getAttribute('aria-label') === 'holds 1 of a share of 1')",
    )
    .await;
    page.go("#/sessions").await;
    page.shows("main tbody tr", &sessions[0].digest).await;
    page.fill("main input[name=owner]", "worker-2").await;
    page.until("document.querySelectorAll('main tbody tr').length === 1").await;
    page.shows("main tbody tr", &sessions[1].digest).await;
    page.go("#/nodes").await;
    page.shows("main tbody tr", "this node").await;
    page.shows("main tbody tr", env!("CARGO_PKG_VERSION")).await;
    page.go("#/churn").await;
    page.shows("main tbody tr", "s/worker-2").await;
    page.is_clean().await;
}
