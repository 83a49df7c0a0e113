//! How much one principal may use, and what that costs another one: nothing.

use serde_json::{Value, json};

use super::cast::{Guarded, all_of, call, principal, write};
use crate::{
    nodes::pair::Pair,
    support::{
        clock::{eventually, soon},
        harness::{Connection, Grant, Reply, Server},
    },
};

/// A principal with every right, and limits.
fn limited(name: &str, limit: &str) -> String {
    format!("{}limit = {{ {limit} }}\n", principal(name, &all_of("")))
}

/// A principal with every right, and no limit.
fn free() -> String {
    principal("free", &all_of(""))
}

fn acquire(key: &str) -> Value {
    json!({ "key": key, "owner": "w", "ttl_ms": 60_000 })
}

/// The refusal names the limit and its value.
#[track_caller]
fn names(reply: &Reply, code: &str, limit: &str, most: u32) {
    let problem = reply.problem(429, code);
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains(limit) && detail.contains(&format!("at most {most} ")), "{detail}");
    assert_eq!(problem["retryable"], true);
}

async fn grant(guarded: &Guarded, token: &str, key: &str) -> Grant {
    Grant::of(&guarded.post(token, "/v1/acquire", &acquire(key)).await.ok())
}

/// Calls until the principal is refused.
async fn until_refused(guarded: &Guarded, token: &str) -> Reply {
    let mut last = None;
    eventually("a call is refused", async || {
        last = Some(guarded.get(token, "/v1/pools").await);
        last.as_ref().is_some_and(|reply| reply.status == 429)
    })
    .await;
    last.expect("a reply")
}

#[tokio::test]
async fn who_calls_too_often_is_refused_and_keeps_its_leases() {
    let guarded = Guarded::start(&[limited("slow", "rate = 1"), free()], &[]);
    let held = grant(&guarded, "slow", "k").await;
    let refused = until_refused(&guarded, "slow").await;
    names(&refused, "rate-limited", "the principal \"slow\" uses its rate", 1);
    let after = refused.json()["retry_after_ms"].as_u64().expect("a pause");
    assert!((1..=2_100).contains(&after), "{after}");
    // What keeps leases has a rate of its own. A refused call leaves its connection as it was.
    let mut connection = Connection::open(guarded.server.addr).await;
    eventually("it is refused here too", async || {
        call(&mut connection, "slow", "GET", "/v1/pools", &Value::Null).await.status == 429
    })
    .await;
    call(&mut connection, "slow", "POST", "/v1/heartbeat", &held.proof()).await.ok();
    // Probes cost nothing, and neither does it cost another principal anything.
    for _ in 0..20 {
        call(&mut connection, "slow", "GET", "/livez", &Value::Null).await.ok();
        call(&mut connection, "free", "GET", "/v1/pools", &Value::Null).await.ok();
    }
    eventually("it is served again", async || guarded.get("slow", "/v1/pools").await.status == 200)
        .await;
    let metrics = guarded.get("free", "/metrics").await.text();
    let counted =
        metrics.lines().find(|line| line.starts_with("tenure_limited_total{limit=\"rate\"}"));
    assert!(counted.is_some_and(|line| !line.ends_with(" 0")), "{counted:?}");
    // Another rate counts from the next call on.
    guarded.reload(&[limited("slow", "rate = 1000"), free()]).await;
    for _ in 0..20 {
        call(&mut connection, "slow", "GET", "/v1/pools", &Value::Null).await.ok();
    }
}

#[tokio::test]
async fn a_call_about_many_leases_counts_as_many_calls() {
    let guarded = Guarded::start(&[limited("batch", "rate = 2")], &[]);
    let nobodys = "0".repeat(32);
    let leases: Vec<_> =
        (0..20).map(|at| json!({ "key": format!("k{at}"), "lease_id": nobodys })).collect();
    let batch = json!({ "leases": leases });
    guarded.post("batch", "/v1/heartbeats", &batch).await.ok();
    for path in ["/v1/heartbeats", "/v1/releases"] {
        let refused = guarded.post("batch", path, &batch).await;
        names(&refused, "rate-limited", "rate", 2);
        let after = refused.json()["retry_after_ms"].as_u64().expect("a pause");
        assert!(after > 4_000, "what 20 leases cost takes 10 s: {after}");
    }
    let keys: Vec<_> = (0..20).map(|at| format!("k{at}")).collect();
    let any = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000 });
    guarded.post("batch", "/v1/acquire-any", &any).await.ok();
    names(&guarded.post("batch", "/v1/acquire", &acquire("x")).await, "rate-limited", "rate", 2);
}

/// With a rate of 1, a call that costs as much as `cost` leases keeps out the next one for `cost` seconds.
#[tokio::test]
async fn a_call_for_a_list_counts_the_leases_that_it_asks_for() {
    let settings = "[[policy]]\nprefix = \"gpus/\"\npermits = 100\n";
    let whole = |key| json!({ "key": key, "mode": "exclusive" });
    let wanted: [(Value, u64); 6] = [
        (json!([whole("gpus/a")]), 100),
        (json!([{ "key": "gpus/a", "permits": 30 }, { "key": "b" }]), 31),
        (json!([{ "key": "gpus/a", "mode": "shared" }, { "key": "gpus/b" }, { "key": "c" }]), 3),
        (json!([whole("gpus/a#7"), whole("b")]), 2),
        (json!([{ "key": "gpus/a", "permits": 4_000_000_000_u32 }]), 100),
        (json!(["gpus/a", "gpus/b", "gpus/c"].map(whole)), 256),
    ];
    for (keys, cost) in wanted {
        let guarded = Guarded::configured(&[limited("list", "rate = 1")], settings, &[]);
        let call = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000 });
        guarded.post("list", "/v1/acquire-all", &call).await;
        let refused = guarded.post("list", "/v1/acquire", &acquire("x")).await;
        names(&refused, "rate-limited", "rate", 1);
        let after = refused.json()["retry_after_ms"].as_u64().expect("a pause");
        // Something is paid while the test runs. A pause is up to twice as long as necessary, and 100 ms.
        let whole = (cost - 1) * 1_000;
        let pauses = whole.saturating_sub(10_000)..=2 * whole + 2_100;
        assert!(pauses.contains(&after), "{after} ms of {cost}: {call}");
    }
}

/// A refused call had no effect: the same call is served once there is room.
#[tokio::test]
async fn a_call_for_a_list_beyond_the_limit_takes_nothing() {
    let settings = "[[policy]]\nprefix = \"gpus/\"\npermits = 4\n";
    let guarded = Guarded::configured(&[limited("list", "held = 5")], settings, &[]);
    let mut held = Vec::new();
    for key in ["x", "y", "z"] {
        held.push(guarded.post("list", "/v1/acquire", &acquire(key)).await.ok());
    }
    let call = json!({
        "keys": [{ "key": "a" }, { "key": "gpus/b", "permits": 2 }],
        "owner": "w", "ttl_ms": 60_000, "request_id": "list-1"
    });
    let refused = guarded.post("list", "/v1/acquire-all", &call).await;
    names(&refused, "limit-reached", "held", 5);
    for key in ["a", "gpus/b%231"] {
        let seen = guarded.get("list", &format!("/v1/leases/{key}")).await;
        seen.problem(404, "unknown-key");
    }
    let release = json!({ "key": "x", "lease_id": held[0]["lease_id"] });
    guarded.post("list", "/v1/release", &release).await.ok();
    let granted = guarded.post("list", "/v1/acquire-all", &call).await.ok();
    // What it has does not count again.
    let again = guarded.post("list", "/v1/acquire-all", &call).await.ok();
    let tokens = |answer: &Value| -> Vec<Value> {
        answer["grants"].as_array().expect("a list").iter().map(|it| it["token"].clone()).collect()
    };
    assert_eq!(tokens(&granted).len(), 3, "{granted}");
    assert_eq!(tokens(&granted), tokens(&again));
}

#[tokio::test]
async fn an_address_whose_callers_have_no_principal_has_a_rate() {
    let server = Server::with(&["limits.rate_per_address=1"]);
    let mut refused = None;
    eventually("a call is refused", async || {
        refused = Some(server.get("/v1/pools").await);
        refused.as_ref().is_some_and(|reply| reply.status == 429)
    })
    .await;
    names(&refused.expect("a reply"), "rate-limited", "limits.rate_per_address", 1);
    for _ in 0..10 {
        server.get("/livez").await.ok();
    }
    eventually("it is served again", async || server.get("/v1/pools").await.status == 200).await;
}

#[tokio::test]
async fn whoever_shows_a_wrong_token_hears_so_however_many_others_at_its_address_do() {
    let guarded = Guarded::start(&[free()], &["limits.rate_per_address=1"]);
    // A holder that hears anything else keeps the token that was replaced, and loses its leases.
    for _ in 0..20 {
        guarded.get("guess", "/v1/pools").await.problem(401, "unauthenticated");
        guarded.get("free", "/v1/pools").await.ok();
    }
    let anybody = until_refused(&guarded, "").await;
    names(&anybody, "rate-limited", "limits.rate_per_address", 1);
    guarded.get("guess", "/v1/pools").await.problem(401, "unauthenticated");
    guarded.get("free", "/v1/pools").await.ok();
}

#[tokio::test]
async fn a_connection_beyond_the_limit_ends_with_its_first_answer() {
    let guarded = Guarded::start(&[limited("few", "connections = 2"), free()], &[]);
    let pools = async |connection: &mut Connection, token: &str| {
        call(connection, token, "GET", "/v1/pools", &Value::Null).await
    };
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut connection = Connection::open(guarded.server.addr).await;
        pools(&mut connection, "few").await.ok();
        kept.push(connection);
    }
    let mut more = Connection::open(guarded.server.addr).await;
    call(&mut more, "few", "GET", "/livez", &Value::Null).await.ok();
    pools(&mut more, "free").await.ok();
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    let refused = call(&mut more, "few", "POST", "/v1/acquire", &body).await;
    names(&refused, "limit-reached", "connections", 2);
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(soon("its end", more.try_receive()).await.is_err());
    // No lease is lost for connections: a heartbeat is served, and its connection ends all the same.
    let held = Grant::of(&call(&mut kept[0], "few", "POST", "/v1/acquire", &body).await.ok());
    let mut more = Connection::open(guarded.server.addr).await;
    let beat = call(&mut more, "few", "POST", "/v1/heartbeat", &held.proof()).await;
    assert_eq!((beat.status, beat.header("connection")), (200, Some("close")), "{}", beat.text());
    assert!(soon("its end", more.try_receive()).await.is_err());
    // Those that count are served, and one that goes makes room.
    for connection in &mut kept {
        pools(connection, "few").await.ok();
    }
    kept.pop();
    eventually("there is room", async || guarded.get("few", "/v1/pools").await.status == 200).await;
    // A connection counts for the principal of its last call.
    let mut last = kept.pop().expect("a connection");
    pools(&mut last, "free").await.ok();
    let mut both = Vec::new();
    for _ in 0..2 {
        eventually("there is room for two", async || {
            let mut connection = Connection::open(guarded.server.addr).await;
            let is_served = pools(&mut connection, "few").await.status == 200;
            both.extend(is_served.then_some(connection));
            is_served
        })
        .await;
    }
    assert_eq!(pools(&mut last, "few").await.status, 429);
}

#[tokio::test]
async fn a_principal_has_as_many_sessions_as_it_may() {
    let guarded = Guarded::start(&[limited("few", "sessions = 1"), free()], &[]);
    let body = json!({ "owner": "w", "ttl_ms": 60_000 });
    let open = async |token: &str| guarded.post(token, "/v1/sessions", &body).await;
    let first = open("few").await;
    assert_eq!(first.status, 201, "{}", first.text());
    names(&open("few").await, "limit-reached", "sessions", 1);
    assert_eq!(open("free").await.status, 201);
    // Its leases are not sessions.
    grant(&guarded, "few", "k").await;
    let id = first.json()["id"].as_str().expect("an id").to_owned();
    guarded.call("few", "DELETE", &format!("/v1/sessions/{id}"), &Value::Null).await.ok();
    assert_eq!(open("few").await.status, 201, "the first one is over");
}

#[tokio::test]
async fn a_principal_holds_as_many_leases_as_it_may() {
    let guarded = Guarded::start(&[limited("few", "held = 2"), free()], &[]);
    let post = async |path: &str, body: &Value| guarded.post("few", path, body).await;
    let (a, b) = (grant(&guarded, "few", "a").await, grant(&guarded, "few", "b").await);
    names(&post("/v1/acquire", &acquire("c")).await, "limit-reached", "held", 2);
    let mut waits = acquire("c");
    waits["wait_ms"] = 60_000.into();
    names(&soon("a refusal", post("/v1/acquire", &waits)).await, "limit-reached", "held", 2);
    let any = json!({ "keys": ["c", "d"], "owner": "w", "ttl_ms": 60_000, "wait_ms": 60_000 });
    names(&soon("a refusal", post("/v1/acquire-any", &any)).await, "limit-reached", "held", 2);
    let record = guarded.get("free", "/v1/leases/c").await;
    record.problem(404, "unknown-key");
    // What it holds does not count again, and stays.
    let mut again = acquire("a");
    post("/v1/acquire", &again).await.problem(409, "held-by-you");
    again["reclaim"] = true.into();
    let a_again = Grant::of(&post("/v1/acquire", &again).await.ok());
    post("/v1/heartbeat", &a.proof()).await.problem(409, "lease-lost");
    post("/v1/heartbeat", &a_again.proof()).await.ok();
    grant(&guarded, "free", "c").await;
    // A release makes room at once, and an acquire-any takes what is left.
    post("/v1/release", &b.proof()).await.ok();
    let d = grant(&guarded, "few", "d").await;
    names(&post("/v1/acquire", &acquire("b")).await, "limit-reached", "held", 2);
    let both = json!({ "leases": [a_again.proof(), d.proof()] });
    post("/v1/releases", &both).await.ok();
    let keys = ["e", "f", "g", "h"];
    let any = json!({ "keys": keys, "owner": "w", "ttl_ms": 60_000, "count": 4 });
    let taken = post("/v1/acquire-any", &any).await.ok();
    assert_eq!(taken["grants"].as_array().map(Vec::len), Some(2), "{taken}");
    names(&post("/v1/acquire-any", &any).await, "limit-reached", "held", 2);
}

#[tokio::test]
async fn a_call_that_waits_counts_and_what_ran_out_does_not() {
    let guarded = Guarded::start(&[limited("few", "held = 1"), free()], &[]);
    let held = grant(&guarded, "free", "busy").await;
    let waits = json!({ "key": "busy", "owner": "w", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let headers = [("Authorization", "Bearer few")];
    let mut waiting = Vec::new();
    // Two workers that wait for one key wait for one lease.
    for _ in 0..2 {
        let mut connection = Connection::open(guarded.server.addr).await;
        let body = waits.to_string();
        connection.send("POST", "/v1/acquire", &headers, body.as_bytes()).await;
        waiting.push(connection);
    }
    eventually("both wait", async || {
        guarded.get("free", "/v1/leases/busy").await.ok()["waiters"] == 2
    })
    .await;
    names(&guarded.post("few", "/v1/acquire", &acquire("x")).await, "limit-reached", "held", 1);
    drop(waiting);
    let mut short = acquire("x");
    short["ttl_ms"] = 300.into();
    eventually("nobody waits", async || {
        guarded.post("few", "/v1/acquire", &short).await.status == 200
    })
    .await;
    eventually("the lease has run out", async || {
        guarded.post("few", "/v1/acquire", &acquire("y")).await.status == 200
    })
    .await;
    guarded.post("free", "/v1/release", &held.proof()).await.ok();
}

#[tokio::test]
async fn a_heartbeat_revives_no_lease_beyond_the_limit() {
    let guarded = Guarded::start(&[limited("few", "held = 1"), free()], &[]);
    let post = async |path: &str, body: &Value| guarded.post("few", path, body).await;
    // An acquire that is served once the lease before it has run out.
    let acquired = async |key: &str, ttl_ms: u64| {
        let mut body = acquire(key);
        body["ttl_ms"] = ttl_ms.into();
        let mut granted = None;
        eventually("there is room", async || {
            let reply = post("/v1/acquire", &body).await;
            granted = (reply.status == 200).then(|| Grant::of(&reply.ok()));
            granted.is_some()
        })
        .await;
        granted.expect("a grant")
    };
    let (a, c) = (acquired("a", 300).await, acquired("c", 300).await);
    let b = acquired("b", 60_000).await;
    let lost = post("/v1/heartbeat", &a.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "expired");
    post("/v1/heartbeat", &b.proof()).await.ok();
    post("/v1/release", &b.proof()).await.ok();
    // There is room for one of them, and it counts again.
    let batch = json!({ "leases": [a.proof(), c.proof()] });
    let answer = post("/v1/heartbeats", &batch).await.ok();
    let results = answer["results"].as_array().expect("results");
    let is_revived = |result: &&Value| result["status"] == 200 && result["revived"] == true;
    assert_eq!(results.iter().filter(is_revived).count(), 1, "{answer}");
    let revived = if is_revived(&&results[0]) { &a } else { &c };
    let longer = revived.proof_and(json!({ "ttl_ms": 60_000 }));
    post("/v1/heartbeat", &longer).await.ok();
    names(&post("/v1/acquire", &acquire("b")).await, "limit-reached", "held", 1);
}

#[tokio::test]
async fn a_key_that_a_principal_offers_counts_until_the_offer_is_over() {
    let guarded = Guarded::start(&[limited("few", "held = 1"), free()], &[]);
    let offer = async |key: &str, to: &str, offer_ms: u64| {
        let held = grant(&guarded, "few", key).await;
        let body = held.proof_and(json!({ "to": to, "offer_ms": offer_ms }));
        guarded.post("few", "/v1/transfer", &body).await.ok();
        let refused = guarded.post("few", "/v1/acquire", &acquire("x")).await;
        names(&refused, "limit-reached", "held", 1);
    };
    let has_room = async || {
        let reply = guarded.post("few", "/v1/acquire", &acquire("x")).await;
        if reply.status == 200 {
            let held = Grant::of(&reply.ok());
            guarded.post("few", "/v1/release", &held.proof()).await.ok();
        }
        reply.status == 200
    };
    // To itself, as long as nobody takes it.
    offer("a", "w", 2_000).await;
    eventually("the offer is over", &has_room).await;
    // What is offered to it, it may take.
    offer("a", "w", 600_000).await;
    let taken = grant(&guarded, "few", "a").await;
    guarded.post("few", "/v1/release", &taken.proof()).await.ok();
    offer("b", "v", 600_000).await;
    let body = json!({ "key": "b", "owner": "v", "ttl_ms": 60_000 });
    guarded.post("free", "/v1/acquire", &body).await.ok();
    eventually("another principal has it", &has_room).await;
}

#[tokio::test]
async fn a_limit_that_is_new_counts_what_is_held_already() {
    let guarded = Guarded::start(&[principal("few", &all_of("")), free()], &[]);
    let held = [grant(&guarded, "few", "a").await, grant(&guarded, "few", "b").await];
    guarded.reload(&[limited("few", "held = 2"), free()]).await;
    eventually("all records are read", async || {
        let reply = guarded.post("few", "/v1/acquire", &acquire("c")).await;
        if reply.status == 200 {
            let grant = Grant::of(&reply.ok());
            guarded.post("few", "/v1/release", &grant.proof()).await.ok();
        }
        reply.status == 429
    })
    .await;
    guarded.post("few", "/v1/release", &held[0].proof()).await.ok();
    grant(&guarded, "few", "c").await;
}

#[tokio::test]
async fn a_principal_has_as_many_waiting_calls_and_streams_as_it_may() {
    let guarded = Guarded::start(&[limited("few", "waits = 1, streams = 1"), free()], &[]);
    grant(&guarded, "free", "busy").await;
    let headers = [("Authorization", "Bearer few")];
    let mut waits = acquire("busy");
    waits["wait_ms"] = 60_000.into();
    let mut waiting = Connection::open(guarded.server.addr).await;
    waiting.send("POST", "/v1/acquire", &headers, waits.to_string().as_bytes()).await;
    eventually("it waits", async || {
        guarded.get("free", "/v1/leases/busy").await.ok()["waiters"] == 1
    })
    .await;
    names(&guarded.post("few", "/v1/acquire", &waits).await, "limit-reached", "waits", 1);
    let mut stream = Connection::open(guarded.server.addr).await;
    stream.send("GET", "/v1/events", &headers, b"").await;
    assert_eq!(soon("a stream", stream.head()).await.expect("a head").0, 200);
    names(&guarded.get("few", "/v1/events").await, "limit-reached", "streams", 1);
    grant(&guarded, "few", "free").await;
}

/// A call of the node at this URL.
async fn at(url: &str, token: &str, path: &str, body: &Value) -> Reply {
    let address = url.trim_start_matches("http://").parse().expect("an address");
    let method = if body.is_null() { "GET" } else { "POST" };
    call(&mut Connection::open(address).await, token, method, path, body).await
}

#[tokio::test]
async fn a_forwarded_call_is_charged_where_it_entered_and_leases_of_all_nodes_count() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name);
    let set = |name: &str| format!("auth.file={}", file(name).display());
    let observer = principal("observer", &all_of(""));
    let (slow, fast) = ("rate = 1, connections = 1", "rate = 1000");
    write(&file("a"), &[observer.clone(), limited("worker", slow), limited("few", "held = 1")]);
    write(&file("b"), &[observer, limited("worker", fast), limited("few", "held = 1")]);
    let pair = Pair::nats_with(&[set("a")], &[set("b")], "observer", &[]).await;
    let (a, b) = (pair.a.url.clone(), pair.b.url.clone());
    // The only connection that the worker may have there.
    let address = a.trim_start_matches("http://").parse().expect("an address");
    let mut direct = Connection::open(address).await;
    let granted = call(&mut direct, "worker", "POST", "/v1/acquire", &acquire("k")).await;
    let held = Grant::of(&granted.ok());
    for _ in 0..10 {
        at(&b, "worker", "/v1/heartbeat", &held.proof()).await.ok();
    }
    let mut refused = None;
    eventually("a call that enters there is refused", async || {
        refused = Some(call(&mut direct, "worker", "GET", "/v1/pools", &Value::Null).await);
        refused.as_ref().is_some_and(|reply| reply.status == 429)
    })
    .await;
    names(&refused.expect("a reply"), "rate-limited", "rate", 1);
    let one = Grant::of(&at(&a, "few", "/v1/acquire", &acquire("one")).await.ok());
    eventually("the other node knows of it", async || {
        let reply = at(&b, "few", "/v1/acquire", &acquire("two")).await;
        if reply.status == 200 {
            let proof = Grant::of(&reply.ok()).proof();
            at(&b, "few", "/v1/release", &proof).await.ok();
        }
        reply.status == 429
    })
    .await;
    at(&b, "few", "/v1/release", &one.proof()).await.ok();
    eventually("and of its end", async || {
        at(&b, "few", "/v1/acquire", &acquire("two")).await.status == 200
    })
    .await;
}
