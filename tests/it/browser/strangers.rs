//! Pages of other origins: of another site, of the same host at another port, and of the same name at another port.

use serde_json::{Value, json};

use super::{
    site::{SHOWN_TO_ALL, Site},
    victim::{NAME, TOKEN, Victim, shows_the_lease},
};
use crate::support::{
    chromium::{Chromium, Tab},
    clock::eventually,
};

const EVIL: &str = "evil.test";
const ANY: &str = "127.0.0.1:0";

/// Calls that arrive from each page, and are refused because of where they come from.
const ARRIVED: [(&str, &str); 12] = [
    ("GET", "/v1/leases"),
    ("GET", "/v1/events"),
    ("GET", "/metrics"),
    ("GET", "/"),
    ("OPTIONS", "/v1/admin/revoke"),
    ("POST", "/v1/admin/revoke"),
    ("POST", "/v1/admin/pin"),
    ("POST", "/v1/acquire"),
    ("POST", "/v1/release"),
    ("POST", "/v1/sessions"),
    ("POST", "/sign-out"),
    ("OPTIONS", "/v1/sessions/{id}"),
];

/// The page has no answer that it could read, not even that there is one.
fn is_opaque(report: &Value) {
    for (attempt, seen) in report.as_object().expect("a report") {
        let (kind, status) = (&seen["type"], &seen["status"]);
        assert!(kind.is_null() || kind == "opaque", "{attempt}: {seen}");
        assert!(status.is_null() || status == 0, "{attempt}: {seen}");
        assert!(seen["text"].as_str().unwrap_or_default().is_empty(), "{attempt}: {seen}");
        assert_ne!(seen["loaded"], true, "{attempt}: {seen}");
        let measured = seen["seen"].as_array();
        assert!(measured.is_none_or(Vec::is_empty), "{attempt}: {seen}");
    }
}

/// What a page reads by the same means where it may.
async fn can_read(browser: &mut Chromium, tab: &Tab, port: u16) {
    for host in [EVIL, NAME, "127.0.0.1"] {
        let url = json!(format!("http://{host}:{port}/open"));
        let call = format!("call({url}, {{ credentials: 'omit' }})");
        let answer = browser.evaluate(tab, &call).await;
        assert_eq!((&answer["status"], &answer["text"]), (&json!(200), &json!(SHOWN_TO_ALL)));
    }
}

async fn change_and_read_nothing(token: &'static str) {
    let (victim, site) = (Victim::start(ANY, token).await, Site::start().await);
    let mut browser = Chromium::start(&[EVIL, NAME]);
    // The person has the coordinator's page open, and has signed in.
    for host in ["127.0.0.1", NAME] {
        victim.show(&mut browser, host).await;
    }
    let before = victim.state().await;
    for page in [EVIL, "127.0.0.1", NAME] {
        let tab = browser.open(&format!("http://{page}:{}/", site.addr.port())).await;
        can_read(&mut browser, &tab, site.addr.port()).await;
        for host in ["127.0.0.1", NAME] {
            let target = format!("http://{host}:{}", victim.port());
            let report = victim.attack(&mut browser, &tab, &target).await;
            victim.told_nothing(&report);
            is_opaque(&report);
        }
        browser.close(tab).await;
        assert_eq!(victim.state().await, before, "a page of {page}");
    }
    victim.refused("foreign-origin", &ARRIVED).await;
    // The cookie stays with its host.
    let of_evil = |head: &&String| head.to_ascii_lowercase().contains(&format!("host: {EVIL}"));
    let heard = site.heard();
    let heard: Vec<&String> = heard.iter().filter(of_evil).collect();
    assert!(heard.len() > 20, "{}", heard.len());
    assert!(heard.iter().all(|head| !head.contains("tenure=")), "{heard:?}");
    // A link that the person follows leads to the coordinator's page, which works.
    let tab = browser.open(&format!("http://{EVIL}:{}/", site.addr.port())).await;
    let url = json!(format!("http://127.0.0.1:{}/", victim.port()));
    browser.evaluate(&tab, &format!("void (location.href = {url})")).await;
    shows_the_lease(&mut browser, &tab).await;
}

#[tokio::test]
async fn pages_of_other_origins_change_and_read_nothing_of_an_open_coordinator() {
    change_and_read_nothing("").await;
}

#[tokio::test]
async fn nor_do_they_where_the_person_has_signed_in() {
    change_and_read_nothing(TOKEN).await;
}

#[tokio::test]
async fn a_request_without_an_origin_reads_nothing_and_keeps_no_place() {
    let (victim, site) = (Victim::start(ANY, "").await, Site::start().await);
    let mut browser = Chromium::start(&[EVIL, NAME]);
    let before = victim.state().await;
    let subscribers = async || victim.server.metric("tenure_event_subscribers ").await;
    let tab = browser.open(&format!("http://{EVIL}:{}/", site.addr.port())).await;
    let stream = async |browser: &mut Chromium, host: &str| {
        let url = json!(format!("http://{host}:{}/v1/events", victim.port()));
        browser.evaluate(&tab, &format!("call({url}, {{ mode: 'no-cors' }})")).await
    };
    // The browser says to this address where the request comes from.
    let answer = stream(&mut browser, "127.0.0.1").await;
    assert_eq!((&answer["type"], &answer["text"]), (&json!("opaque"), &json!("")));
    victim.refused("foreign-origin", &[("GET", "/v1/events")]).await;
    assert_eq!(subscribers().await, 0.0);
    let kept = json!(format!("http://{NAME}:{}/v1/events", victim.port()));
    let keep = format!("void (window.kept = fetch({kept}, {{ mode: 'no-cors' }}))");
    let earlier = victim.reads_of("/v1/events");
    browser.evaluate(&tab, &keep).await;
    eventually("it arrives", async || victim.reads_of("/v1/events") > earlier).await;
    // The page keeps the response, and the browser lets go of a stream that no page may read.
    eventually("the place is free", async || subscribers().await == 0.0).await;
    let kept = "kept.then((it) => it.text()).then((text) => text === '')";
    assert_eq!(browser.evaluate(&tab, kept).await, json!(true));
    browser.close(tab).await;
    assert_eq!(victim.state().await, before);
}
