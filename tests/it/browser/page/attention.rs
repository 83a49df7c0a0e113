//! What needs a person is on top, and can be acted on there.

use serde_json::json;

use super::shown::Page;
use crate::{
    access::cast::{Guarded, principal},
    support::harness::{Server, eventually},
};

/// A plugin whose fences fail, for the keys below `f/`. Their former owners must be shut out before the next grant.
const FAILING: &str = r#"
[[plugin]]
name = "power"
kind = "exec"
command = ["/bin/sh", "-c", "exit 3"]
retries = 0

[[policy]]
prefix = "f/"
pool = "fenced"
fence = ["power"]
"#;

#[tokio::test]
async fn failed_fences_are_on_top_and_one_is_skipped_from_there() {
    let server = Server::configured(FAILING);
    let keys: Vec<_> = (0..200).map(|n| format!("k/{n:03}")).collect();
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 200 });
    server.post("/v1/acquire-any", &body).await.ok();
    for key in ["f/1", "f/2", "f/3"] {
        server.acquire(key, "old", 300).await;
    }
    let mut page = Page::open(&server, "").await;
    page.until("document.querySelectorAll('#attention li.critical').length === 3").await;
    page.until("document.title.startsWith('3 failed fences')").await;
    page.shows("#alarm", "3 failed fences").await;
    for part in ["critical", "exit status 3", "ago", "power", "old", "tenure fence-retry"] {
        page.shows("#attention li:nth-child(2)", part).await;
    }
    // Nothing is above it but the header.
    let top = "document.querySelector('#attention').getBoundingClientRect().top";
    assert!(page.number(top).await < 250.0);
    page.shows("#figures", "with a failed fence").await;

    page.click("#attention li:nth-child(2) button:last-of-type").await;
    page.shows("dialog", "Skip the fence f/2?").await;
    page.shows("dialog .voids", "voids that protection").await;
    page.fill("dialog input[name=reason]", "the host is scrapped").await;
    let disabled = "document.querySelector('dialog .strong').disabled";
    assert_eq!(page.value(disabled).await, true, "nobody said that the former owner is shut out");
    page.click("dialog input[name=sure]").await;
    page.click("dialog .strong").await;
    page.shows("dialog .says", "The fences are skipped").await;
    page.until("document.querySelectorAll('#attention li.critical').length === 2").await;
    page.shows("#alarm", "2 failed fences").await;
    page.is_clean().await;
    let events = server.events_of("f/2").await;
    let skipped = events.iter().find(|event| event["type"] == "io.tenure.lease.fence-skipped");
    assert_eq!(skipped.expect("it is told")["data"]["reason"], "the host is scrapped");

    // On every other view, one line leads there.
    page.go("#/leases?state=fencing").await;
    page.shows("#leases tbody tr", "fence failed").await;
    page.shows("#alarm", "2 failed fences").await;
    eventually("both are listed", async || {
        page.count("#leases tbody tr:not(.nothing)").await == 2.0
    })
    .await;
}

#[tokio::test]
async fn who_may_not_see_it_is_told_so() {
    let may = r#"{ verb = "read", prefix = "jobs/" }"#;
    let guarded = Guarded::start(&[principal("reader", may)], &[]);
    let mut page = Page::open(&guarded.server, "").await;
    page.until("!document.getElementById('sign-in').hidden").await;
    page.fill("#sign-in input", "reader").await;
    page.click("#sign-in button").await;
    page.shows("#attention", "that needs the right “observe”").await;
    page.shows("#link", "connected").await;
    page.go("#/leases").await;
    page.shows("#leases", "Nobody holds a lease").await;
    page.is_clean().await;
}

#[tokio::test]
async fn where_nothing_needs_a_person_the_page_says_so() {
    let server = Server::start();
    let mut page = Page::open(&server, "").await;
    page.shows("#attention", "Nothing needs attention").await;
    assert_eq!(page.value("document.querySelector('#alarm').hidden").await, true);
    page.is_clean().await;
}
