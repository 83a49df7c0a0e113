//! The page's pure functions, in the browser that runs them.

use serde_json::json;

use super::shown::Page;
use crate::support::harness::Server;

/// Pairs of an expression over the modules and what it is.
const CASES: &str = r##"[
    [time.span(null), ""], [time.span(0), "0 ms"], [time.span(640), "640 ms"], [time.span(12400), "12.4 s"],
    [time.span(9000), "9 s"], [time.span(59990), "1 min"], [time.span(185000), "3 min 5 s"],
    [time.span(7800000), "2 h 10 min"], [time.span(356400000), "4 d 3 h"],
    [time.ago(1000, 1900), "just now"], [time.ago(0, 12000), "12 s ago"], [time.ago(0, 185000), "3 min ago"],
    [time.ago(90000, 0), "in 1 min"], [time.full("x"), ""],
    [text.shown("a\u202eb\u0007"), "a\\u{202e}b\\u{7}"], [text.shown(null), ""], [text.count(1, "key", "keys"), "1 key"],
    [text.count(12000, "key", "keys"), "12,000 keys"], [text.host("http://10.0.0.1:7373/"), "10.0.0.1:7373"],
    [route.parse("").view, "overview"], [route.parse("#/nowhere?a=1").view, "overview"],
    [route.parse("#/?step=1m").query.step, "1m"], [route.parse("#/leases?prefix=a%2Fb%3F").query.prefix, "a/b?"], [route.link("overview"), "#/"],
    [route.link("leases", { prefix: "a/b", owner: "" }), "#/leases?prefix=a%2Fb"],
    [route.parse(route.leaseLink("a b/ü?#&=%")).query.key, "a b/ü?#&=%"],
    [filters.statesOf({}).join(), "fencing,cooling,offered,held"], [filters.statesOf({ state: "free,odd" }).join(), "free"],
    [filters.statesText(["held", "fencing", "offered", "cooling"]), ""], [filters.statesText(["free", "held"]), "held,free"],
    [filters.leasesPath({ prefix: "a&b" }), "/v1/leases?prefix=a%26b&state=fencing%2Ccooling%2Coffered%2Cheld&limit=100"],
    [filters.concerns({ prefix: "a", owner: "w" }, { key: "a1", owner: null, previous: { owner: "w" } }), true],
    [filters.concerns({ prefix: "a", owner: "w" }, { key: "a1", owner: "v", previous: null }), false],
    [cursor.earlier("ab-100-7", 40), "ab-60-0"], [cursor.earlier("ab-10-7", 40), "ab-0-0"],
    [cursor.earlier("ab-18446744073709551615-0", 1), "ab-18446744073709551614-0"], [cursor.earlier("odd", 1), null],
    [cursor.isBeginning("ab-0-0"), true], [cursor.isBeginning("ab-1-0"), false],
    [rights.may(null, "read", "k"), false], [rights.may({ open: true, may: {} }, "break", "k"), true],
    [rights.may({ open: false, may: { admin: ["a/"] } }, "admin", "a/1"), true],
    [rights.may({ open: false, may: { admin: ["a/"] } }, "admin", "b/1"), false],
    [rights.may({ open: false, may: { admin: ["a/"] } }, "admin", ""), false],
    [orders.differs({ state: "held", owner: "w", token: 1 }, { state: "held", owner: "w", token: 2 }), true],
    [orders.ORDERS.revoke.verb({ immediately: true }), "break"],
    [JSON.stringify(orders.ORDERS.revoke.body({ key: "k" }, { reason: "r", immediately: false })), '{"key":"k","reason":"r"}'],
    [orders.ORDERS.transfer.fits({ state: "held", session: "x" }), false],
    [JSON.stringify(series.changes({ step_ms: 5000, points: [{ at: "1970-01-01T00:00:10Z", changes: { granted: 2, expired: 1 } }] }, 20000)),
     "[[10],[24],[0],[12],[0],[0]]"],
    [JSON.stringify(series.changes({ step_ms: 60000, points: [{ at: "1970-01-01T00:00:10Z", changes: { granted: 2 } }] }, 40000)),
     "[[10],[4],[0],[0],[0],[0]]"],
    [series.changes({ step_ms: 60000, points: [{ at: "1970-01-01T00:00:10Z", changes: { granted: 2 } }] }, 12000)[0].length, 0],
    [JSON.stringify(series.spans({ points: [{ at: "1970-01-01T00:00:10Z", this_node: { hold: { count: 0 } } }] }, "hold")),
     "[[10],[null],[null],[null]]"],
    [kinds.short("io.tenure.lease.fence-failed"), "fence-failed"], [kinds.tone("new-kind"), "plain"],
    [attention.headline({ attention: [], more: 0 }), ""],
    [attention.headline({ attention: [{ kind: "fence-failed", key: "k" }, { kind: "fence-failed", count: 4 }], more: 0 }), "5 failed fences"],
    [attention.headline({ attention: [{ kind: "open-door" }], more: 0 }), "1 thing needs attention"],
]"##;

#[tokio::test]
async fn the_words_of_the_page_are_right() {
    let server = Server::start();
    let mut page = Page::open(&server, "").await;
    let names = "time text route filters cursor rights orders series kinds attention";
    let imports = names.split(' ').map(|name| format!("import('/assets/{name}.js')"));
    let imports: Vec<_> = imports.collect();
    let wrong = format!(
        "Promise.all([{}]).then(([{}]) => {CASES}.filter(([is, wanted]) => is !== wanted))",
        imports.join(", "),
        names.replace(' ', ", ")
    );
    assert_eq!(page.value(&wrong).await, json!([]));
    page.is_clean().await;
}
