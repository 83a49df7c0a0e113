//! Orders: what they void is said first, and only who may give them.

use serde_json::json;

use super::shown::Page;
use crate::{
    access::cast::{Guarded, all_of, digest, principal},
    support::harness::Server,
};

const SAYS: &str = "dialog .says";

#[tokio::test]
async fn a_revoke_says_what_it_voids_and_leaves_its_reason() {
    let server = Server::start();
    let grant = server.acquire("jobs/1", "worker-1", 600_000).await;
    let mut page = Page::open(&server, "#/lease?key=jobs%2F1").await;
    page.click("[data-order=revoke]").await;
    page.shows("dialog", "Revoke jobs/1?").await;
    page.shows("dialog .voids", &format!("holds “jobs/1” under token {}", grant.token)).await;
    let disabled = "document.querySelector('dialog .strong').disabled";
    assert_eq!(page.value(disabled).await, true, "there is no reason");
    page.fill("dialog input[name=reason]", "  the host burns ").await;
    assert_eq!(page.value(disabled).await, false);
    // What is more dangerous needs more.
    page.click("dialog input[name=immediately]").await;
    page.shows("dialog .voids", "before the holder can know").await;
    assert_eq!(page.value(disabled).await, true, "nobody said that the holder is stopped");
    page.click("dialog input[name=sure]").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "The tenure has ended").await;
    let events = server.events_of("jobs/1").await;
    let last = &events.last().expect("an event")["data"];
    assert_eq!((&last["reason"], &last["actor"]), (&json!("the host burns"), &json!("127.0.0.1")));
    page.shows("#facts", "free").await;
    page.is_clean().await;
}

#[tokio::test]
async fn an_order_about_another_tenure_than_was_shown_is_not_sent() {
    let server = Server::start();
    let grant = server.acquire("jobs/1", "first", 600_000).await;
    let mut page = Page::open(&server, "#/lease?key=jobs%2F1").await;
    page.click("[data-order=revoke]").await;
    page.fill("dialog input[name=reason]", "why").await;
    server.release(&grant).await;
    server.acquire("jobs/1", "second", 600_000).await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "The lease has changed").await;
    page.shows("dialog .voids", "second").await;
    assert_eq!(server.lease("jobs/1").await["owner"], "second");
    page.click("dialog .strong").await;
    page.shows(SAYS, "The order is durable").await;
    page.is_clean().await;
}

#[tokio::test]
async fn pins_drains_transfers_and_forgets_are_orders_too() {
    let server = Server::start();
    let grant = server.acquire("jobs/1", "worker-1", 600_000).await;
    let mut page = Page::open(&server, "#/lease?key=jobs%2F1").await;
    for (order, done) in [("pin", "The key is pinned"), ("unpin", "The key is not pinned")] {
        page.click(&format!("[data-order={order}]")).await;
        page.fill("dialog input[name=by]", "CHG-1").await;
        page.click("dialog .strong").await;
        page.shows(SAYS, done).await;
        page.click("dialog .order-close").await;
    }
    page.click("[data-order=transfer]").await;
    page.fill("dialog input[name=to]", "worker-2").await;
    page.fill("dialog input[name=lease_id]", &grant.lease_id).await;
    page.click("dialog input[name=sure]").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "The lease is given up").await;
    page.click("dialog .order-close").await;
    page.shows("#facts", "worker-2").await;
    assert_eq!(server.lease("jobs/1").await["offered_to"], "worker-2");
    assert_eq!(page.count("dialog").await, 0.0, "what was typed is gone");

    let free = server.acquire("old/1", "w", 600_000).await;
    server.release(&free).await;
    page.go("#/lease?key=old%2F1").await;
    page.click("[data-order=forget]").await;
    page.shows("dialog .voids", "Every free key that begins with “old/1”").await;
    page.fill("dialog input[name=reason]", "done").await;
    page.click("dialog input[name=sure]").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "1 key is forgotten").await;

    let session = server.session("worker-3", 600_000, json!({})).await;
    server.acquire_under("jobs/3", "worker-3", &session).await;
    page.value("document.querySelector('dialog').close()").await;
    page.go("#/sessions").await;
    page.click("main tbody button").await;
    page.shows("dialog .voids", "Every lease of “worker-3” ends").await;
    page.click("dialog input[name=sure]").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "1 lease ends").await;
    page.is_clean().await;
}

/// Signs in with this token.
async fn signed_in(guarded: &Guarded, place: &str, token: &str) -> Page {
    let mut page = Page::open(&guarded.server, place).await;
    page.until("!document.getElementById('sign-in').hidden").await;
    assert_eq!(page.text("#main").await, "", "nothing is shown to a stranger");
    page.fill("#sign-in input", token).await;
    page.click("#sign-in button").await;
    page.until("document.getElementById('sign-in').hidden").await;
    page
}

#[tokio::test]
async fn an_order_needs_the_token_again_and_the_page_keeps_it_nowhere() {
    let secret = "the-secret-of-ann";
    let ann = principal("ann", &all_of("")).replace(&digest("ann"), &digest(secret));
    let guarded = Guarded::start(&[ann], &[]);
    let lease = json!({ "key": "jobs/1", "owner": "w", "ttl_ms": 600_000 });
    guarded.post(secret, "/v1/acquire", &lease).await.ok();
    let mut page = signed_in(&guarded, "#/lease?key=jobs%2F1", secret).await;
    page.shows("#person", "ann").await;
    page.click("[data-order=revoke]").await;
    page.fill("dialog input[name=reason]", "why").await;
    page.fill("dialog input[name=token]", "a guess").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "does not know this token").await;
    assert_eq!(guarded.get(secret, "/v1/leases/jobs%2F1").await.ok()["state"], "held");
    page.fill("dialog input[name=token]", secret).await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "The order is durable").await;
    let places = "[document.cookie, location.href, document.documentElement.outerHTML, \
                   ...[...document.querySelectorAll('input')].map((one) => one.value), \
                   JSON.stringify(history.state), JSON.stringify({ ...localStorage, ...sessionStorage })]";
    let found = page.value(places).await;
    assert!(!found.to_string().contains(secret), "{found}");
    // It is asked for each time.
    page.click("dialog .order-close").await;
    page.click("[data-order=pin]").await;
    page.until("document.querySelector('dialog input[name=token]').checkVisibility()").await;
    page.fill("dialog input[name=by]", "p").await;
    let disabled = "document.querySelector('dialog .strong').disabled";
    assert_eq!(page.value(disabled).await, true);
    // Or it is kept in memory, until the page is loaded anew.
    page.fill("dialog input[name=token]", secret).await;
    page.click("dialog input[name=keep]").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "The key is pinned").await;
    page.click("dialog .order-close").await;
    page.click("[data-order=unpin]").await;
    page.fill("dialog input[name=by]", "p").await;
    page.click("dialog .strong").await;
    page.shows(SAYS, "The key is not pinned").await;
    let found = page.value(places).await;
    assert!(!found.to_string().contains(secret), "{found}");
    page.is_clean().await;
}

#[tokio::test]
async fn who_may_only_read_has_no_orders_and_signs_out() {
    let may = r#"{ verb = "read", prefix = "jobs/" }, { verb = "observe" }"#;
    let guarded =
        Guarded::start(&[principal("reader", may), principal("holder", &all_of(""))], &[]);
    for key in ["jobs/1", "secret/1"] {
        let lease = json!({ "key": key, "owner": "w", "ttl_ms": 600_000 });
        guarded.post("holder", "/v1/acquire", &lease).await.ok();
    }
    let mut page = signed_in(&guarded, "#/lease?key=jobs%2F1", "reader").await;
    page.shows("#facts", "held").await;
    assert_eq!(page.count("[data-order]").await, 0.0);
    page.go("#/leases").await;
    page.shows("#leases tbody tr", "jobs/1").await;
    page.hides("#leases", "secret/1").await;
    page.click("#person button").await;
    page.until("!document.getElementById('sign-in').hidden").await;
    assert_eq!(page.text("#main").await, "");
    let who = page.value("fetch('/sign-in').then((answer) => answer.json())").await;
    assert_eq!((&who["name"], &who["open"]), (&json!(null), &json!(false)));
    page.is_clean().await;
}
