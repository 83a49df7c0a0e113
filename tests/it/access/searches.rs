//! A search is charged while it looks: whether or not it finds a key, also when its caller hangs up, and at the node that
//! makes it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    cast::{Guarded, all_of, call, call_at, principal, write},
    costs::hold_all,
};
use crate::{
    nodes::pair::Pair,
    support::{
        clock::eventually,
        harness::{Connection, Grant, Reply},
    },
};

const KEYS: usize = 3_000;

/// A principal with so many calls per second, and another one without a limit. A search of all keys costs 30 calls: the
/// lower the rate, the longer it is owed, however slow the machine is.
fn principals(rate: u32) -> [String; 2] {
    let narrow = principal("narrow", &all_of("k/"));
    [format!("{narrow}limit = {{ rate = {rate} }}\n"), principal("mate", &all_of(""))]
}

/// Whether a call is refused until at least a second of calls is paid.
fn owes_much(reply: &Reply) -> bool {
    reply.status == 429
        && reply.problem(429, "rate-limited")["retry_after_ms"].as_u64() >= Some(1_000)
}

/// Who acquires any key under a prefix pays for all keys that were looked at, also when it is granted one.
#[tokio::test]
async fn a_search_for_candidates_is_charged_whether_or_not_it_finds_one() {
    let guarded = Guarded::start(&principals(3), &[]);
    hold_all(&guarded, "mate", "k/", 3_000).await;
    let any = json!({ "prefix": "k/", "owner": "narrow", "ttl_ms": 60_000 });
    for status in [409, 200] {
        let mut reply = guarded.post("narrow", "/v1/acquire-any", &any).await;
        eventually("the search before is paid", async || {
            if reply.status == 429 {
                reply = guarded.post("narrow", "/v1/acquire-any", &any).await;
            }
            reply.status != 429
        })
        .await;
        assert_eq!(reply.status, status, "{}", reply.text());
        let refused = guarded.post("narrow", "/v1/acquire-any", &any).await;
        assert!(owes_much(&refused), "{status}: {}", refused.text());
        let one = json!({ "key": "k/one-more", "owner": "mate", "ttl_ms": 60_000 });
        let one = guarded.post("mate", "/v1/acquire", &one).await;
        if one.status == 200 {
            let proof = Grant::of(&one.json()).proof();
            guarded.post("mate", "/v1/release", &proof).await.ok();
        }
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_has_paid() {
    let guarded = Guarded::start(&principals(1), &[]);
    hold_all(&guarded, "mate", "k/", KEYS).await;
    let any = json!({ "prefix": "k/", "owner": "narrow", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let mut connection = Connection::open(guarded.server.addr).await;
    let waits = call(&mut connection, "narrow", "POST", "/v1/acquire-any", &any);
    let waits = tokio::time::timeout(Duration::from_millis(700), waits).await;
    assert!(waits.is_err(), "no key is free");
    drop(connection);
    let refused = guarded.get("narrow", "/v1/leases?limit=1").await;
    assert!(owes_much(&refused), "{}", refused.text());
}

/// Orders about many keys look at all of them, and each lease that they end counts as a call.
#[tokio::test]
async fn orders_about_many_keys_are_charged_for_them() {
    let guarded = Guarded::start(&principals(1), &[]);
    hold_all(&guarded, "mate", "k/", KEYS).await;
    let forget = json!({ "prefix": "k/", "reason": "r" });
    let forgot = guarded.post("narrow", "/v1/admin/forget", &forget).await.ok();
    assert_eq!(forgot["left"], KEYS, "{forgot}");
    let refused = guarded.get("narrow", "/v1/leases?limit=1").await;
    assert!(owes_much(&refused), "{}", refused.text());
    let drainer = format!("{}limit = {{ rate = 1 }}\n", principal("drainer", &all_of("")));
    write(&guarded.file, &[principals(1).concat(), drainer]);
    let drain = json!({ "owner": "nobody" });
    eventually("the drainer may drain", async || {
        guarded.post("drainer", "/v1/admin/drain", &drain).await.status == 200
    })
    .await;
    let refused = guarded.get("drainer", "/v1/leases?limit=1").await;
    assert!(owes_much(&refused), "{}", refused.text());
}

/// A session makes its home node serve the call. The other node forwards it, and has only that to charge.
#[tokio::test]
async fn a_forwarded_search_is_charged_where_it_is_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access");
    write(&file, &principals(3));
    let sets = [format!("auth.file={}", file.display())];
    let pair = Pair::nats_with(&sets, &sets, "mate", &[]).await;
    let post = async |url: &str, token: &str, path: &str, body: Value| {
        call_at(url, token, "POST", path, &body).await
    };
    let open = json!({ "owner": "narrow", "ttl_ms": 60_000 });
    let session = post(&pair.a.url, "narrow", "/v1/sessions", open.clone()).await.json();
    let of_b = post(&pair.b.url, "narrow", "/v1/sessions", open).await.json();
    for chunk in 0..KEYS / 1_000 {
        let keys: Vec<String> = (0..1_000).map(|at| format!("k/{}", chunk * 1_000 + at)).collect();
        let all = json!({ "keys": keys, "count": 1_000, "owner": "mate", "ttl_ms": 600_000 });
        post(&pair.a.url, "mate", "/v1/acquire-any", all).await.ok();
    }
    let any = json!({ "prefix": "k/", "owner": "narrow", "session": session["id"] });
    // On a slow machine a node may lapse, and a search may be paid before the next call.
    eventually("a search is owed", async || {
        owes_much(&post(&pair.b.url, "narrow", "/v1/acquire-any", any.clone()).await)
    })
    .await;
    // For a call of the other session, the other node asks this one for a place in the queue of a key.
    let waits = json!({ "key": "k/0", "owner": "narrow", "session": of_b["id"], "wait_ms": 5_000 });
    let waits = post(&pair.b.url, "narrow", "/v1/acquire", waits).await;
    assert!(owes_much(&waits), "{}", waits.text());
    // The node that forwards charges the calls alone.
    let read = call_at(&pair.b.url, "narrow", "GET", "/v1/leases?limit=1", &Value::Null).await;
    assert!(!owes_much(&read), "{}", read.text());
}
