//! A page that nobody sees asks for nothing.

use super::shown::Page;
use crate::support::{
    clock::{eventually, sleep_ms},
    harness::Server,
};

/// Says to the page whether it is seen, as a browser does when a person goes to another tab.
fn seen(state: &str) -> String {
    format!(
        "Object.defineProperty(document, 'visibilityState', {{ configurable: true, get: () => '{state}' }}); \
         void document.dispatchEvent(new Event('visibilitychange'))"
    )
}

#[tokio::test]
async fn a_hidden_page_asks_for_nothing_and_catches_up_when_it_is_seen() {
    const ASKED: &str = "performance.getEntriesByType('resource').length";
    let server = Server::start();
    let mut page = Page::open(&server, "").await;
    let subscribers = async || server.metric("tenure_event_subscribers ").await;
    page.shows("#latest", "live").await;
    eventually("it has a stream", async || subscribers().await == 1.0).await;
    page.value(&seen("hidden")).await;
    eventually("the stream has ended", async || subscribers().await == 0.0).await;
    let before = page.number(ASKED).await;
    // Longer than each of the page's rests.
    sleep_ms(7_000).await;
    assert_eq!(page.number(ASKED).await, before);
    server.acquire("meanwhile", "w", 600_000).await;
    page.value(&seen("visible")).await;
    page.shows("#latest tbody tr", "meanwhile").await;
    assert!(page.number(ASKED).await > before);
    page.is_clean().await;
}

/// A browser opens six connections to one host: streams must leave some to other calls.
#[tokio::test]
async fn ten_pages_of_one_browser_all_get_answers() {
    ten_pages("").await;
}

/// A page by plain HTTP from another machine has no locks: such pages ask each other.
#[tokio::test]
async fn ten_pages_without_locks_all_get_answers() {
    ten_pages("Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })").await;
}

/// Ten pages, in each of which the script runs before the page's own.
async fn ten_pages(script: &str) {
    let server = Server::start();
    let mut first = Page::open(&server, "").await;
    first.shows("#latest", "live").await;
    let mut tabs = Vec::new();
    let url = format!("http://{}/", server.addr);
    for _ in 0..9 {
        tabs.push(first.browser.open_watched(&url, script).await);
    }
    for tab in &tabs {
        let come =
            "['live', 'every 5 s'].includes(document.querySelector('#latest .chip')?.textContent)";
        first.browser.until(tab, come).await;
    }
    server.acquire("news", "w", 600_000).await;
    for tab in &tabs {
        let told = "document.querySelector('#latest').textContent.includes('news') && \
                    document.querySelector('#lost').hidden";
        first.browser.until(tab, told).await;
    }
    let streams = server.metric("tenure_event_subscribers ").await;
    assert!((1.0..=5.0).contains(&streams), "{streams} streams");
}
