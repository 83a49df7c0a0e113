//! Both themes, a screen and a phone.

use serde_json::json;

use super::shown::Page;
use crate::support::harness::Server;

const PLACES: [&str; 8] = [
    "#/",
    "#/leases",
    "#/lease?key=LONG",
    "#/sessions",
    "#/pools",
    "#/nodes?all=1",
    "#/events",
    "#/churn",
];

/// The least contrast between a text and what is behind it, of all texts that are seen: `[ratio, text]`.
const CONTRAST: &str = "(() => {
    const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = (colour) => {
        const [r, g, b] = parts(colour).slice(0, 3).map((one) => one / 255)
            .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if ((parts(colour)[3] ?? 1) > 0.99) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    let worst = [99, ''];
    for (const element of document.querySelectorAll('body *')) {
        const words = [...element.childNodes].filter((one) => one.nodeType === 3 && one.data.trim());
        if (!words.length || !element.checkVisibility() || element.matches(':disabled, .unseen, option')) continue;
        const [one, other] = [light(getComputedStyle(element).color), light(behind(element))];
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (ratio < worst[0]) worst = [ratio, words[0].data];
    }
    return worst;
})()";

/// A coordinator with something to show in each view.
async fn some() -> (Server, String) {
    let server =
        Server::configured("[[policy]]\nprefix = \"s/\"\npool = \"shards\"\nbalance = true\n");
    let long = format!("s/{}", "long-key-without-a-space".repeat(12));
    let session = server
        .session("worker-with-a-long-name.example.org", 600_000, json!({ "pool": "shards" }))
        .await;
    server.acquire_under(&long, "worker-with-a-long-name.example.org", &session).await;
    let body =
        json!({ "key": "v", "owner": "w", "ttl_ms": 600_000, "value": "0123456789".repeat(90) });
    server.post("/v1/acquire", &body).await.ok();
    (server, long)
}

async fn at_width(page: &mut Page, width: u32, is_phone: bool) {
    let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": is_phone });
    page.browser.tell(&page.tab, "Emulation.setDeviceMetricsOverride", &size).await;
}

/// Goes to each place, and waits until it shows something.
async fn visit(page: &mut Page, long: &str, mut look: impl AsyncFnMut(&mut Page, &str)) {
    for place in PLACES {
        page.go(&place.replace("LONG", long)).await;
        page.until("document.querySelector('h1') !== null && !document.querySelector('main').textContent.includes('loading…')")
            .await;
        look(page, place).await;
    }
}

#[tokio::test]
async fn nothing_is_wider_than_a_phone_or_a_screen_and_a_row_is_a_card_on_a_phone() {
    let (server, long) = some().await;
    let mut page = Page::open(&server, "").await;
    for (width, is_phone) in [(390, true), (1280, false)] {
        at_width(&mut page, width, is_phone).await;
        visit(&mut page, &long, async |page, place| {
            let wide = page.number("document.documentElement.scrollWidth").await;
            assert!(wide <= f64::from(width), "{place} is {wide} px wide at {width} px");
            let cut = "[...document.querySelectorAll('.list td')].filter((one) => one.scrollWidth > one.clientWidth + 1).length";
            assert_eq!(page.number(cut).await, 0.0, "{place} at {width} px");
        })
        .await;
        page.go("#/leases").await;
        page.shows("#leases a.key", &long).await;
        let kind = page
            .value("getComputedStyle(document.querySelector('#leases tbody tr')).display")
            .await;
        assert_eq!(kind, if is_phone { "block" } else { "table-row" });
    }
    page.is_clean().await;
}

#[tokio::test]
async fn texts_stand_out_in_both_themes() {
    let (server, long) = some().await;
    let mut page = Page::open(&server, "").await;
    let mut colours = Vec::new();
    for theme in ["light", "dark"] {
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        page.browser.tell(&page.tab, "Emulation.setEmulatedMedia", &media).await;
        visit(&mut page, &long, async |page, place| {
            let worst = page.value(CONTRAST).await;
            let ratio = worst[0].as_f64().expect("a ratio");
            assert!(ratio >= 4.5, "{place}, {theme}: {worst}");
        })
        .await;
        colours.push(page.value("getComputedStyle(document.body).backgroundColor").await);
    }
    assert_ne!(colours[0], colours[1]);
    page.is_clean().await;
}

#[tokio::test]
async fn the_plots_are_drawn_and_have_the_same_as_a_table() {
    let server = Server::start();
    for n in 0..5 {
        let grant = server.acquire(&format!("k/{n}"), "w", 60_000).await;
        server.release(&grant).await;
    }
    let mut page = Page::open(&server, "").await;
    page.until("document.querySelectorAll('figure canvas').length === 4").await;
    page.until(
        "document.querySelector('figure .canvas').getAttribute('aria-label')?.includes('granted') === true",
    )
    .await;
    page.shows("figure", "this node").await;
    page.click("figure details summary").await;
    page.shows("figure details th", "given back").await;
    page.until(
        "[...document.querySelectorAll('figure details td:nth-child(2)')]\
         .some((one) => Number(one.textContent) >= 12)",
    )
    .await;
    page.click("[data-step='1m']").await;
    page.until("location.hash === '#/?step=1m'").await;
    page.is_clean().await;
}
