//! Many calls in flight, and answers by id.

use serde_json::{Value, json};

use crate::support::harness::{Connection, Grant, Server, Talk, talk::UPGRADE};

#[tokio::test]
async fn a_stream_begins_with_its_bounds() {
    let server = Server::with(&["limits.stream_calls=7", "server.stream_ping=3s"]);
    let talk = Talk::open(server.addr).await;
    let hello = json!({
        "calls": 7,
        "message_bytes": 1024 * 1024 + 4096,
        "ping_ms": 3000,
        "node": format!("http://{}", server.addr),
    });
    assert_eq!(talk.hello, hello);
    assert!((server.metric("tenure_streams ").await - 1.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn what_is_no_upgrade_is_told_what_to_do() {
    let server = Server::start();
    let reply = server.get("/v1/stream").await;
    reply.problem(426, "upgrade-required");
    assert_eq!(reply.header("upgrade"), Some("websocket"));
    assert_eq!(reply.header("sec-websocket-version"), Some("13"));
    for (name, value) in [("Sec-WebSocket-Version", "12"), ("Sec-WebSocket-Key", "short")] {
        let mut headers = UPGRADE.to_vec();
        headers.retain(|(given, _)| *given != name);
        headers.push((name, value));
        let mut connection = Connection::open(server.addr).await;
        let reply = connection.call("GET", "/v1/stream", &headers, b"").await;
        reply.problem(426, "upgrade-required");
    }
}

#[tokio::test]
async fn answers_come_by_id_and_not_in_the_order_of_the_calls() {
    let server = Server::start();
    let held = server.acquire("k", "w1", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    let wait = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let waiting = talk.begin("acquire", &wait).await;
    server.until_waiters("k", 1).await;
    // The call that waits keeps none of the others.
    let mut later = Vec::new();
    for n in 0..50 {
        let body = json!({ "key": format!("k{n}"), "owner": "w2", "ttl_ms": 60_000 });
        later.push(talk.begin("acquire", &body).await);
    }
    let beat = talk.begin("heartbeat", &held.proof()).await;
    for id in later.into_iter().rev().chain([beat]) {
        assert_eq!(talk.answer(id).await["status"], 200);
    }
    let release = talk.begin("release", &held.proof()).await;
    assert_eq!(talk.answer(release).await["body"]["released"], true);
    let granted = talk.answer(waiting).await;
    assert_eq!((&granted["status"], &granted["body"]["owner"]), (&json!(200), &json!("w2")));
}

#[tokio::test]
async fn heartbeats_that_are_sent_together_are_answered_each() {
    let server = Server::start();
    let mut grants = Vec::new();
    for n in 0..100 {
        grants.push(server.acquire(&format!("k{n}"), "w", 60_000).await);
    }
    let mut talk = Talk::open(server.addr).await;
    for round in 0..20 {
        let mut sent = Vec::new();
        for grant in &grants {
            sent.push((talk.begin("heartbeat", &grant.proof()).await, grant));
        }
        for (id, grant) in sent {
            let answer = talk.answer(id).await;
            assert_eq!(answer["status"], 200, "{round}: {answer}");
            assert_eq!(answer["body"]["key"], grant.key, "{answer}");
            assert_eq!(answer["body"]["token"], grant.token, "{answer}");
            assert_eq!(answer["body"]["notices"], json!([]), "{answer}");
        }
    }
    let alive =
        server.metric("tenure_lease_heartbeats_total{pool=\"default\",outcome=\"alive\"}").await;
    assert!((alive - 2000.0).abs() < f64::EPSILON, "{alive}");
    assert!((server.metric("tenure_stream_calls_total").await - 2000.0).abs() < f64::EPSILON);
}

#[tokio::test]
async fn batches_of_heartbeats_are_answered_in_their_order_and_counted() {
    let server = Server::start();
    let mut grants = Vec::new();
    for n in 0..100 {
        grants.push(server.acquire(&format!("k{n}"), "w", 60_000).await);
    }
    let batch = json!({ "leases": grants.iter().map(Grant::proof).collect::<Vec<_>>() });
    let mut talk = Talk::open(server.addr).await;
    for _ in 0..20 {
        let answer = talk.ok("heartbeats", &batch).await;
        let results = answer["results"].as_array().expect("results");
        assert_eq!(results.len(), grants.len());
        for (result, grant) in results.iter().zip(&grants) {
            let told = (&result["status"], &result["key"], &result["token"]);
            assert_eq!(told, (&json!(200), &json!(grant.key), &json!(grant.token)), "{result}");
            assert!(result["valid_for_ms"].as_u64().is_some_and(|left| left > 50_000), "{result}");
        }
    }
    let alive =
        server.metric("tenure_lease_heartbeats_total{pool=\"default\",outcome=\"alive\"}").await;
    assert!((alive - 2000.0).abs() < f64::EPSILON, "{alive}");
    // One that ended does not keep the others from being kept.
    server.release(&grants[50]).await;
    let answer = talk.ok("heartbeats", &batch).await;
    let results = answer["results"].as_array().expect("results");
    let lost: Vec<usize> = (0..100).filter(|at| results[*at]["status"] != 200).collect();
    assert_eq!((lost.as_slice(), &results[50]["code"]), (&[50][..], &json!("lease-lost")));
    assert_eq!(talk.ok("heartbeats", &json!({ "leases": [] })).await, json!({ "results": [] }));
}

#[tokio::test]
async fn a_message_that_names_its_call_is_answered_whatever_it_is() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    for (text, status, code) in [
        (r#"{"id":1000}"#, 400, "malformed-request"),
        (r#"{"id":1000,"op":"heartbeat","extra":1}"#, 400, "malformed-request"),
        (r#"{"id":1000,"op":"no_such"}"#, 404, "no-such-path"),
        (r#"{"id":1000,"op":"stream"}"#, 404, "no-such-path"),
        (r#"{"id":1000,"op":"metrics"}"#, 404, "no-such-path"),
        (r#"{"id":1000,"op":"get_session"}"#, 400, "malformed-request"),
        (r#"{"id":1000,"op":"heartbeat"}"#, 400, "malformed-request"),
        (r#"{"id":1000,"op":"heartbeat","body":[]}"#, 400, "malformed-request"),
        (r#"{"id":1000,"op":"events","params":{"format":"sse"}}"#, 400, "invalid-field"),
    ] {
        talk.send_text(text.to_owned()).await;
        let answer = talk.answer(1000).await;
        assert_eq!(
            (&answer["status"], &answer["body"]["code"]),
            (&json!(status), &json!(code)),
            "{text}"
        );
        assert_eq!(answer["body"]["status"], status, "{answer}");
    }
    // The stream goes on.
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    assert_eq!(talk.ok("acquire", &body).await["owner"], "w");
}

#[tokio::test]
async fn a_message_that_cannot_be_answered_ends_the_stream() {
    let server = Server::start();
    for (text, code) in [
        ("no JSON", 1007),
        (r#"{"op":"info"}"#, 1007),
        (r#"{"id":9007199254740992,"op":"info"}"#, 1007),
    ] {
        let mut talk = Talk::open(server.addr).await;
        talk.send_text(text.to_owned()).await;
        assert_eq!(talk.code().await, Some(code), "{text}");
    }
}

#[tokio::test]
async fn an_id_is_used_by_one_call_in_flight_and_may_be_used_again() {
    let server = Server::start();
    server.acquire("k", "w1", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    for _ in 0..2 {
        talk.send_text(json!({ "id": 7, "op": "info" }).to_string()).await;
        assert_eq!(talk.answer(7).await["status"], 200);
    }
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let wait = json!({ "id": 7, "op": "acquire", "body": body });
    talk.send_text(wait.to_string()).await;
    server.until_waiters("k", 1).await;
    talk.send_text(json!({ "id": 7, "op": "info" }).to_string()).await;
    assert_eq!(talk.code().await, Some(1008));
    // The call that waited has left the queue.
    server.until_waiters("k", 0).await;
}

#[tokio::test]
async fn whoever_leaves_is_granted_nothing() {
    let server = Server::start();
    let held = server.acquire("k", "w1", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 60_000 });
    talk.begin("acquire", &body).await;
    server.until_waiters("k", 1).await;
    drop(talk);
    server.until_waiters("k", 0).await;
    server.release(&held).await;
    assert_eq!(server.lease("k").await["state"], "free");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_granted_nothing() {
    let server = Server::with(&["limits.stream_calls=1"]);
    let held = server.acquire("k", "w1", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    let body = json!({ "key": "k", "owner": "w2", "ttl_ms": 60_000, "wait_ms": 60_000 });
    let waiting = talk.begin("acquire", &body).await;
    server.until_waiters("k", 1).await;
    let cancel = talk.begin_with("cancel", &json!({ "call": waiting }), &Value::Null).await;
    assert_eq!(talk.answer(cancel).await["body"], json!({ "cancelled": true }));
    server.until_waiters("k", 0).await;
    server.release(&held).await;
    assert_eq!(server.lease("k").await["state"], "free");
    // Its place is free, and so is its id.
    let again = talk.begin_with("cancel", &json!({ "call": waiting }), &Value::Null).await;
    assert_eq!(talk.answer(again).await["body"], json!({ "cancelled": false }));
    talk.send_text(json!({ "id": waiting, "op": "info" }).to_string()).await;
    assert_eq!(talk.answer(waiting).await["status"], 200);
    let nothing = talk.call("cancel", &Value::Null).await;
    assert_eq!(nothing["body"]["field"], "call", "{nothing}");
    for (op, params, body, field) in [
        ("cancel", json!({ "call": 1, "of": 2 }), Value::Null, "of"),
        ("cancel", json!({ "call": 1 }), json!({}), "body"),
        ("unwatch", json!({ "prefix": "k" }), Value::Null, "prefix"),
    ] {
        let call = talk.begin_with(op, &params, &body).await;
        let refused = talk.answer(call).await;
        assert_eq!((&refused["status"], &refused["body"]["field"]), (&json!(400), &json!(field)));
    }
}

#[tokio::test]
async fn a_message_means_the_same_however_its_json_is_written() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let escaped =
        r#" {"body":{"\u006bey":"k","owner":"\u0077","ttl_ms":60000},"op":"\u0061cquire","id":7}"#;
    talk.send_text(escaped.to_owned()).await;
    let grant = Grant::of(&talk.answer(7).await["body"]);
    let beat = json!({ "id": 8, "op": "heartbeat", "body": grant.proof() }).to_string();
    talk.send_text(beat.replace("heartbeat", r"heart\u0062eat").replace("\"k\"", r#""\u006b""#))
        .await;
    assert_eq!(talk.answer(8).await["status"], 200);
}

#[tokio::test]
async fn a_session_lives_by_a_stream() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let opened = talk.ok("open_session", &json!({ "owner": "w", "ttl_ms": 60_000 })).await;
    let id = opened["id"].as_str().expect("an id").to_owned();
    let under = json!({ "key": "k", "owner": "w", "session": id });
    let grant = Grant::of(&talk.ok("acquire", &under).await);
    let params = json!({ "id": id });
    let beat = talk.begin_with("heartbeat_session", &params, &Value::Null).await;
    let beat = talk.answer(beat).await;
    assert_eq!(beat["body"]["leases"]["count"], 1, "{beat}");
    let progress = json!({ "progress": "half" });
    let beat = talk.begin_with("heartbeat_session", &params, &progress).await;
    assert_eq!(talk.answer(beat).await["status"], 200);
    let single = talk.call("heartbeat", &grant.proof()).await;
    assert_eq!(single["body"]["code"], "kept-by-session", "{single}");
    let close = talk.begin_with("close_session", &params, &Value::Null).await;
    assert_eq!(talk.answer(close).await["body"]["destroyed"], true);
}
