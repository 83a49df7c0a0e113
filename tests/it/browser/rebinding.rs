//! A page whose name comes to stand for the coordinator's address after it was loaded (DNS rebinding).
//!
//! To the browser this is the same as an answer of a resolver that changes: the page's own server is gone, and the
//! coordinator answers at the name and port that the page came from.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{
    site::{SHOWN_TO_ALL, Site},
    victim::{TOKEN, Victim},
};
use crate::support::{chromium::Chromium, ports::free_port};

const REBOUND: &str = "rebound.test";

/// Calls that arrive from the page's own origin.
const ARRIVED: [(&str, &str); 8] = [
    ("GET", "/v1/leases"),
    ("GET", "/v1/events"),
    ("GET", "/metrics"),
    ("GET", "/"),
    ("POST", "/v1/admin/revoke"),
    ("POST", "/v1/acquire"),
    ("POST", "/sign-out"),
    ("DELETE", "/v1/sessions/{id}"),
];

/// The page reads that its name is unknown here, and nothing else.
fn is_unknown(report: &Value) {
    let mut answered = 0;
    for (attempt, seen) in report.as_object().expect("a report") {
        assert_ne!(seen["loaded"], true, "{attempt}: {seen}");
        if let Some(status) = seen["status"].as_u64() {
            assert_eq!(status, 421, "{attempt}: {seen}");
            let text = seen["text"].as_str().expect("text");
            assert!(text.contains("unknown-host"), "{attempt}: {seen}");
            answered += 1;
        }
    }
    assert!(answered > 60, "it is its own origin: {report:#}");
}

async fn changes_and_reads_nothing(token: &'static str) {
    let addr = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let site = Site::at(addr).await;
    let mut browser = Chromium::start(&[REBOUND]);
    let tab = browser.open(&format!("http://{REBOUND}:{}/", addr.port())).await;
    let answer = browser.evaluate(&tab, "call('/open')").await;
    assert_eq!((&answer["status"], &answer["text"]), (&json!(200), &json!(SHOWN_TO_ALL)));
    site.stop().await;
    let victim = Victim::start(&addr.to_string(), token).await;
    let before = victim.state().await;
    let report = victim.attack(&mut browser, &tab, "").await;
    victim.told_nothing(&report);
    is_unknown(&report);
    assert_eq!(victim.state().await, before);
    victim.refused("unknown-host", &ARRIVED).await;
    // By a name of its own, it is the same coordinator. The person's cookie does not help the page.
    let own = victim.show(&mut browser, "127.0.0.1").await;
    let report = victim.attack(&mut browser, &tab, "").await;
    victim.told_nothing(&report);
    is_unknown(&report);
    assert_eq!(victim.state().await, before);
    browser.close(own).await;
}

#[tokio::test]
async fn a_rebound_page_changes_and_reads_nothing_of_an_open_coordinator() {
    changes_and_reads_nothing("").await;
}

#[tokio::test]
async fn nor_does_it_where_the_person_has_signed_in() {
    changes_and_reads_nothing(TOKEN).await;
}
