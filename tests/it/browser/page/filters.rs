//! Leases and events are searched by the node, and the query is in the address.

use serde_json::{Value, json};

use super::shown::Page;
use crate::support::harness::Server;

/// 250 leases of `w`, one of `v`, one that is free, and one with a long key.
async fn some() -> (Server, String) {
    let server = Server::start();
    let keys: Vec<_> = (0..250).map(|n| format!("jobs/{n:03}")).collect();
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 250 });
    server.post("/v1/acquire-any", &body).await.ok();
    server.acquire("other/1", "v", 600_000).await;
    let free = server.acquire("jobs/000-free", "v", 600_000).await;
    server.release(&free).await;
    let long = format!("long/{}", "0123456789".repeat(20));
    server.acquire(&long, "w", 600_000).await;
    (server, long)
}

const ROWS: &str = "document.querySelectorAll('#leases tbody tr:not(.nothing)').length";

#[tokio::test]
async fn a_filter_is_in_the_address_and_pages_lead_on_and_back() {
    let (server, _) = some().await;
    let mut page = Page::open(&server, "#/leases").await;
    page.until(&format!("{ROWS} === 100")).await;
    // Free keys are there only if somebody asks for them.
    page.shows("#leases tbody tr:first-child", "jobs/000").await;
    page.hides("#leases tbody tr", "jobs/000-free").await;
    page.click("#next").await;
    page.shows("#leases tbody tr:first-child", "jobs/100").await;
    page.until("location.hash.includes('after=')").await;
    page.click("#previous").await;
    page.shows("#leases tbody tr:first-child", "jobs/000").await;

    page.fill("input[name=prefix]", "other/").await;
    page.until(&format!("{ROWS} === 1")).await;
    page.shows("#leases tbody tr", "other/1").await;
    let address = page.value("location.hash").await;
    assert_eq!(address, "#/leases?prefix=other%2F");
    page.fill("input[name=prefix]", "").await;
    page.fill("input[name=owner]", "v").await;
    page.until(&format!("{ROWS} === 1")).await;
    page.fill("input[name=owner]", "").await;
    page.fill("input[name=prefix]", "jobs/000").await;
    page.click("input[value=free]").await;
    page.shows("#leases tbody tr", "jobs/000-free").await;
    page.is_clean().await;

    // The address leads another person to the same.
    let address = page.value("location.hash").await;
    let mut other = Page::open(&server, address.as_str().expect("a text")).await;
    other.shows("#leases tbody tr", "jobs/000-free").await;
    let (prefix, free) = ("input[name=prefix]", "input[value=free]");
    let filled = format!(
        "[document.querySelector({}).value, document.querySelector({}).checked]",
        json!(prefix),
        json!(free)
    );
    assert_eq!(other.value(&filled).await, json!(["jobs/000", true]));
    // An address may also lead to nothing.
    other.go("#/leases?pool=nowhere").await;
    other.shows("main [role=status]", "nowhere").await;
}

#[tokio::test]
async fn a_long_key_is_shown_whole_and_can_be_selected() {
    let (server, long) = some().await;
    let mut page = Page::open(&server, "#/leases?prefix=long").await;
    page.shows("#leases a.key", &long).await;
    let key = "document.querySelector('#leases a.key')";
    assert_eq!(page.value(&format!("{key}.title")).await, Value::from(long.clone()));
    // It is not cut at the edge of its cell, and the page does not grow.
    let cut = format!("{key}.closest('td').scrollWidth > {key}.closest('td').clientWidth");
    assert_eq!(page.value(&cut).await, json!(false));
    let selected = format!("getSelection().selectAllChildren({key}), getSelection().toString()");
    assert_eq!(page.value(&selected).await, Value::from(long));
    page.is_clean().await;
}

#[tokio::test]
async fn events_are_filtered_by_the_node_from_the_past_on() {
    let (server, _) = some().await;
    let mut page = Page::open(&server, "#/events").await;
    // The last forty of 252.
    page.until("document.querySelectorAll('#events tbody tr').length === 40").await;
    page.shows("#events", "live").await;
    page.fill("input[name=prefix]", "jobs/000").await;
    page.until("document.querySelectorAll('#events tbody tr').length === 3").await;
    page.shows("#events tbody tr:first-child", "released").await;
    page.until("location.hash === '#/events?prefix=jobs%2F000'").await;
    server.acquire("other/2", "v", 600_000).await;
    let grant = server.acquire("jobs/000-free", "v", 600_000).await;
    page.until("document.querySelectorAll('#events tbody tr').length === 4").await;
    page.shows("#events tbody tr:first-child", "granted").await;
    // A list that is held still shows nothing new until it goes on.
    page.click("#events [aria-pressed]").await;
    server.release(&grant).await;
    page.shows("#events [aria-pressed]", "1 new").await;
    page.shows("#events tbody tr:first-child", "granted").await;
    page.click("#events [aria-pressed]").await;
    page.shows("#events tbody tr:first-child", "released").await;
    page.is_clean().await;
}
