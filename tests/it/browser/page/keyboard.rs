//! Without a mouse, and with a screen reader.

use serde_json::json;

use super::shown::Page;
use crate::support::harness::Server;

async fn press(page: &mut Page, keys: &str) {
    for key in keys.chars() {
        let press = format!(
            "(document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent('keydown', \
             {{ key: {}, bubbles: true, cancelable: true }}))",
            json!(key.to_string())
        );
        page.value(&press).await;
    }
}

#[tokio::test]
async fn keys_lead_to_views_filters_and_their_own_list() {
    let server = Server::start();
    server.acquire("k", "w", 600_000).await;
    let mut page = Page::open(&server, "").await;
    page.shows("#latest tbody tr", "k").await;
    press(&mut page, "gl").await;
    page.until("location.hash === '#/leases'").await;
    page.shows("#leases tbody tr", "k").await;
    press(&mut page, "/").await;
    page.until("document.activeElement.name === 'prefix'").await;
    // Within a field, they are letters.
    press(&mut page, "ge").await;
    assert_eq!(page.value("location.hash").await, "#/leases");
    page.value("document.activeElement.blur()").await;
    press(&mut page, "?").await;
    page.shows("dialog", "go to the first filter").await;
    page.click("dialog input[type=checkbox]").await;
    page.click("dialog button").await;
    press(&mut page, "ge").await;
    assert_eq!(page.value("location.hash").await, "#/leases", "they are off");
    page.is_clean().await;
}

#[tokio::test]
async fn every_view_has_one_heading_and_every_field_and_button_a_name() {
    let server = Server::start();
    server.acquire("k", "w", 600_000).await;
    let mut page = Page::open(&server, "").await;
    for place in [
        "#/",
        "#/leases",
        "#/lease?key=k",
        "#/sessions",
        "#/pools",
        "#/nodes",
        "#/events",
        "#/churn",
    ] {
        page.go(place).await;
        page.until("document.querySelectorAll('h1').length === 1 && !document.querySelector('main').textContent.includes('loading…')")
            .await;
        let nameless = "[...document.querySelectorAll('input, select')].filter((one) => !one.labels.length).length + \
                        [...document.querySelectorAll('button, a')].filter((one) => one.checkVisibility() && !one.textContent.trim()).length + \
                        [...document.querySelectorAll('table.list')].filter((one) => !one.caption?.textContent).length + \
                        [...document.querySelectorAll('[role=img]')].filter((one) => !one.getAttribute('aria-label')).length";
        page.until(&format!("{nameless} === 0")).await;
        assert_eq!(page.count("nav [aria-current=page]").await, 1.0, "{place}");
        // A word stands beside each sign, and the sign is not read aloud.
        let bare = "[...document.querySelectorAll('.badge')].filter((one) => one.textContent.trim().length < 3).length";
        assert_eq!(page.number(bare).await, 0.0, "{place}");
    }
    assert_eq!(page.value("document.documentElement.lang").await, "en");
    page.value("document.getElementById('skip').click()").await;
    assert_eq!(page.value("document.activeElement.id").await, "main");
    page.is_clean().await;
}
