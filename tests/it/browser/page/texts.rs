//! Texts of others stay texts, and the browser would not take them for anything else.

use serde_json::json;

use super::shown::Page;
use crate::support::harness::{Connection, Server, percent};

const KEY: &str = "<img src=x onerror=\"window.hit=1\">/1";
const OWNER: &str = "\"><script>window.hit=2</script>";
const VALUE: &str = "<svg onload=window.hit=3></svg>";
const REASON: &str = "javascript:window.hit=4 <b>bold</b> {{7*7}}";

#[tokio::test]
async fn keys_owners_values_and_reasons_are_shown_as_they_are() {
    // It has names from before new ones were judged.
    let old = [("TENURE_TEST_BROKEN_ACCESS", "NewNamesUnchecked")];
    let server = Server::configured_in("", &old);
    let body = json!({ "key": KEY, "owner": OWNER, "ttl_ms": 600_000, "value": VALUE });
    server.post("/v1/acquire", &body).await.ok();
    let revoke = json!({ "key": KEY, "reason": REASON, "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    server.post("/v1/acquire", &body).await.ok();
    let session = server.session(OWNER, 600_000, json!({})).await;
    server.acquire("ad\u{202e}min", "zero\u{200b}width", 600_000).await;
    server.acquire_under("kept", OWNER, &session).await;
    let lease = format!("#/lease?key={}", percent(KEY));
    let mut page = Page::open(&server, "").await;
    for (place, texts) in [
        ("#/", vec![KEY, OWNER, REASON, "ad\\u{202e}min", "zero\\u{200b}width"]),
        ("#/leases", vec![KEY, OWNER, "ad\\u{202e}min", "zero\\u{200b}width"]),
        (lease.as_str(), vec![KEY, OWNER, VALUE, REASON]),
        ("#/sessions", vec![OWNER]),
        ("#/events", vec![KEY, OWNER, REASON]),
        ("#/churn", vec![KEY]),
        ("#/churn?by=owners", vec![OWNER]),
    ] {
        page.go(place).await;
        for text in texts {
            page.shows("main", text).await;
        }
        assert_eq!(page.count("main :is(img, script, svg, b:not(.figures b))").await, 0.0);
    }
    page.go(&lease).await;
    page.click("[data-order=revoke]").await;
    page.shows("dialog .voids", OWNER).await;
    assert_eq!(page.value("window.hit === undefined").await, json!(true));
    page.is_clean().await;
}

#[tokio::test]
async fn the_browser_makes_no_element_of_a_text_and_asks_no_other_server() {
    let server = Server::start();
    let mut page = Page::open(&server, "").await;
    let made = "(() => { try { document.body.innerHTML = '<b>'; return 'made'; } \
                catch (error) { return error.name; } })()";
    assert_eq!(page.value(made).await, json!("TypeError"));
    let refused = async |page: &mut Page, act: &str| {
        let told = format!(
            "new Promise((tell) => {{ document.addEventListener('securitypolicyviolation', \
             (event) => tell(event.effectiveDirective), {{ once: true }}); {act} }})"
        );
        page.value(&told).await
    };
    let ask = "fetch('http://127.0.0.1:1/').catch(() => {})";
    assert_eq!(refused(&mut page, ask).await, json!("connect-src"));
    let style = "document.body.setAttribute('style', 'color: red')";
    assert_eq!(refused(&mut page, style).await, json!("style-src-attr"));
    let frame = "document.body.append(Object.assign(document.createElement('iframe'), \
                 { src: 'http://127.0.0.1:1/' }))";
    assert_eq!(refused(&mut page, frame).await, json!("frame-src"));
}

#[tokio::test]
async fn a_file_that_has_not_changed_is_not_sent_again() {
    let server = Server::start();
    for path in ["/", "/assets/main.js", "/assets/uplot.js", "/assets/page.css"] {
        let file = server.get(path).await;
        assert_eq!((file.status, file.header("cache-control")), (200, Some("no-cache")), "{path}");
        let tag = file.header("etag").expect("a tag").to_owned();
        let mut connection = Connection::open(server.addr).await;
        let told = format!("\"other\", W/{tag}");
        let again = connection.call("GET", path, &[("If-None-Match", told.as_str())], b"").await;
        assert_eq!((again.status, again.text()), (304, String::new()), "{path}");
        assert!(again.header("content-security-policy").is_some(), "{path}");
        let other = connection.call("GET", path, &[("If-None-Match", "\"other\"")], b"").await;
        assert_eq!(other.status, 200, "{path}");
    }
    assert_eq!(server.get("/assets/none.js").await.status, 404);
}
