//! Both doors have one meaning: a call by a stream is answered with the document that HTTP answers with.

use serde_json::{Value, json};

use crate::support::harness::{Server, Talk};

/// A call in both its forms.
struct Case {
    op: &'static str,
    params: Value,
    body: Value,
    method: &'static str,
    path: String,
}

fn case(op: &'static str, method: &'static str, path: &str, params: Value, body: Value) -> Case {
    Case { op, params, body, method, path: path.to_owned() }
}

/// Without what differs from call to call.
fn steady(mut document: Value) -> Value {
    const MOVING: [&str; 7] = [
        "valid_for_ms",
        "expires_in_ms",
        "lease_id",
        "runs_out_in_ms",
        "deadline_ms",
        "id",
        "retry_after_ms",
    ];
    match &mut document {
        Value::Object(fields) => {
            fields.retain(|name, _| !MOVING.contains(&name.as_str()));
            fields.values_mut().for_each(|value| *value = steady(value.take()));
            if let Some(Value::String(detail)) = fields.get_mut("detail") {
                *detail = without_spans(detail);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|value| *value = steady(value.take())),
        _ => {}
    }
    document
}

/// Without the milliseconds that are left at the time of the call.
fn without_spans(detail: &str) -> String {
    let words: Vec<&str> = detail.split(' ').collect();
    let is_span = |at: usize| words.get(at + 1).is_some_and(|unit| unit.starts_with("ms"));
    let kept = words.iter().enumerate().filter(|(at, _)| !is_span(*at));
    kept.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

async fn check(server: &Server, talk: &mut Talk, cases: Vec<Case>) {
    for Case { op, params, body, method, path } in cases {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let plain = server.call(method, &path, text.as_bytes()).await;
        let id = talk.begin_with(op, &params, &body).await;
        let answer = talk.answer(id).await;
        let name = format!("{op} {params} {body}");
        assert_eq!(answer["status"], plain.status, "{name}: {answer}");
        assert_eq!(steady(answer["body"].clone()), steady(plain.json()), "{name}");
        let after = plain.header("retry-after").map(|after| after.parse::<u64>().expect("whole"));
        assert_eq!(answer["retry_after"].as_u64().is_some(), after.is_some(), "{name}: {answer}");
    }
}

#[tokio::test]
async fn reads_and_refusals_are_the_same_by_both_doors() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let held = server.acquire("in/held", "w", 60_000).await;
    let session = server.session("w", 60_000, json!({})).await;
    let nobody = json!({ "key": "in/held", "lease_id": "0".repeat(32) });
    let acquire = |key: &str, more: Value| {
        let mut body = json!({ "key": key, "owner": "other", "ttl_ms": 60_000 });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        body
    };
    let none = Value::Null;
    let long = "v".repeat(16 * 1024 + 1);
    let too_long = "v".repeat(200 * 1024);
    let proof = held.proof();
    let with = |more: Value| held.proof_and(more);
    let digest = &session.id[..32];
    let of = |id: &str| json!({ "id": id });
    let cases = vec![
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), proof.clone()),
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), nobody.clone()),
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), with(json!({ "value": "v" }))),
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), with(json!({ "value": long }))),
        case(
            "heartbeat",
            "POST",
            "/v1/heartbeat",
            none.clone(),
            with(json!({ "value": too_long })),
        ),
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), with(json!({ "ttl_ms": 1 }))),
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), with(json!({ "more": 1 }))),
        case("heartbeat", "POST", "/v1/heartbeat", none.clone(), json!({ "key": "k" })),
        case(
            "heartbeat",
            "POST",
            "/v1/heartbeat",
            none.clone(),
            json!({ "key": "", "lease_id": "0".repeat(32) }),
        ),
        case(
            "heartbeat",
            "POST",
            "/v1/heartbeat",
            none.clone(),
            json!({ "key": "k", "lease_id": "x" }),
        ),
        case(
            "heartbeat",
            "POST",
            "/v1/heartbeat",
            none.clone(),
            json!({ "key": "in\u{7}held", "lease_id": "0".repeat(32) }),
        ),
        case(
            "heartbeats",
            "POST",
            "/v1/heartbeats",
            none.clone(),
            json!({ "leases": [proof, nobody] }),
        ),
        case("heartbeats", "POST", "/v1/heartbeats", none.clone(), json!({ "leases": "x" })),
        case("heartbeats", "POST", "/v1/heartbeats", none.clone(), json!({ "leases": [proof] })),
        // A list of the fields is no object.
        case(
            "heartbeat",
            "POST",
            "/v1/heartbeat",
            none.clone(),
            json!([proof["key"], proof["lease_id"]]),
        ),
        case("heartbeats", "POST", "/v1/heartbeats", none.clone(), json!([[proof]])),
        case(
            "heartbeats",
            "POST",
            "/v1/heartbeats",
            none.clone(),
            json!({ "leases": [[proof["key"], proof["lease_id"]]] }),
        ),
        case("releases", "POST", "/v1/releases", none.clone(), json!({ "leases": [nobody] })),
        case("release", "POST", "/v1/release", none.clone(), nobody.clone()),
        case("transfer", "POST", "/v1/transfer", none.clone(), nobody.clone()),
        case(
            "check",
            "POST",
            "/v1/check",
            none.clone(),
            json!({ "key": "in/held", "token": held.token }),
        ),
        case("check", "POST", "/v1/check", none.clone(), json!({ "key": "in/none", "token": 1 })),
        case("acquire", "POST", "/v1/acquire", none.clone(), acquire("in/held", json!({}))),
        case(
            "acquire",
            "POST",
            "/v1/acquire",
            none.clone(),
            acquire("in/held", json!({ "wait_ms": 20 })),
        ),
        case("acquire", "POST", "/v1/acquire", none.clone(), acquire("", json!({}))),
        case("acquire", "POST", "/v1/acquire", none.clone(), acquire("k", json!({ "ttl_ms": 1 }))),
        case(
            "acquire_any",
            "POST",
            "/v1/acquire-any",
            none.clone(),
            json!({ "keys": ["in/held"], "owner": "other", "ttl_ms": 60_000 }),
        ),
        case(
            "acquire_any",
            "POST",
            "/v1/acquire-any",
            none.clone(),
            json!({ "keys": [], "owner": "other", "ttl_ms": 60_000 }),
        ),
        case(
            "acquire_all",
            "POST",
            "/v1/acquire-all",
            none.clone(),
            json!({ "keys": [{ "key": "in/held" }], "owner": "other", "ttl_ms": 60_000 }),
        ),
        case("get_lease", "GET", "/v1/leases/in/held", json!({ "key": "in/held" }), none.clone()),
        case(
            "get_lease",
            "GET",
            "/v1/leases/in%2Fheld?gate=1",
            json!({ "key": "in/held", "gate": 1 }),
            none.clone(),
        ),
        case(
            "get_lease",
            "GET",
            "/v1/leases/none%20%25%2B",
            json!({ "key": "none %+" }),
            none.clone(),
        ),
        case(
            "list_leases",
            "GET",
            "/v1/leases?prefix=in%2F&limit=5",
            json!({ "prefix": "in/", "limit": 5 }),
            none.clone(),
        ),
        case("list_leases", "GET", "/v1/leases?limit=0", json!({ "limit": 0 }), none.clone()),
        case("list_leases", "GET", "/v1/leases?nonsense=1", json!({ "nonsense": 1 }), none.clone()),
        case(
            "open_session",
            "POST",
            "/v1/sessions",
            none.clone(),
            json!({ "owner": "w", "ttl_ms": 1 }),
        ),
        case("get_session", "GET", &format!("/v1/sessions/{digest}"), of(digest), none.clone()),
        case("get_session", "GET", "/v1/sessions/x", of("x"), none.clone()),
        case("list_sessions", "GET", "/v1/sessions?owner=w", json!({ "owner": "w" }), none.clone()),
        case(
            "heartbeat_session",
            "POST",
            &format!("/v1/sessions/{}/heartbeat", session.id),
            of(&session.id),
            none.clone(),
        ),
        case(
            "heartbeat_session",
            "POST",
            &format!("/v1/sessions/{}/heartbeat", "0".repeat(64)),
            of(&"0".repeat(64)),
            none.clone(),
        ),
        case("heartbeat_session", "POST", "/v1/sessions/x/heartbeat", of("x"), json!({})),
        case("list_pools", "GET", "/v1/pools", none.clone(), none.clone()),
        case("get_pool", "GET", "/v1/pools/nowhere", json!({ "pool": "nowhere" }), none.clone()),
        case(
            "get_assignment",
            "GET",
            "/v1/pools/default/assignment?limit=5",
            json!({ "pool": "default", "limit": 5 }),
            none.clone(),
        ),
        case(
            "plan_pool",
            "GET",
            "/v1/pools/default/plan",
            json!({ "pool": "default" }),
            none.clone(),
        ),
        case(
            "events",
            "GET",
            "/v1/events?format=json&after=0",
            json!({ "after": "0" }),
            none.clone(),
        ),
        case(
            "events",
            "GET",
            "/v1/events?format=json&after=x",
            json!({ "after": "x" }),
            none.clone(),
        ),
        case("info", "GET", "/v1/info", none.clone(), none.clone()),
        case("nodes", "GET", "/v1/nodes", none.clone(), none.clone()),
        case("pin", "POST", "/v1/admin/pin", none.clone(), json!({ "key": "in/none", "by": "b" })),
        case(
            "unpin",
            "POST",
            "/v1/admin/unpin",
            none.clone(),
            json!({ "key": "in/none", "by": "b" }),
        ),
        case(
            "revoke",
            "POST",
            "/v1/admin/revoke",
            none.clone(),
            json!({ "key": "in/none", "reason": "r" }),
        ),
        case(
            "fence_skip",
            "POST",
            "/v1/admin/fence-skip",
            none.clone(),
            json!({ "key": "in/held", "reason": "r" }),
        ),
        case(
            "fence_retry",
            "POST",
            "/v1/admin/fence-retry",
            none.clone(),
            json!({ "key": "in/held", "reason": "r" }),
        ),
        case(
            "forget_keys",
            "POST",
            "/v1/admin/forget",
            none.clone(),
            json!({ "prefix": "out/", "reason": "r" }),
        ),
        case(
            "order_pool",
            "POST",
            "/v1/admin/pool",
            none.clone(),
            json!({ "pool": "default", "action": "thaw", "reason": "r" }),
        ),
        case("drain_owner", "POST", "/v1/admin/drain", none.clone(), json!({ "owner": "nobody" })),
        case(
            "order_access",
            "POST",
            "/v1/admin/access",
            none.clone(),
            json!({ "action": "unrevoke", "principal": "nobody", "reason": "r" }),
        ),
        case("list_revocations", "GET", "/v1/revocations", none.clone(), none.clone()),
    ];
    check(&server, &mut talk, cases).await;
}

#[tokio::test]
async fn what_is_done_by_a_stream_is_done() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    let body = json!({ "key": "a/1", "owner": "w", "ttl_ms": 60_000, "value": "one" });
    let grant = talk.ok("acquire", &body).await;
    assert_eq!(server.lease("a/1").await["value"], "one");
    let transfer = json!({ "key": "a/1", "lease_id": grant["lease_id"], "to": "w2" });
    assert_eq!(talk.ok("transfer", &transfer).await["lease"]["offered_to"], "w2");
    let any = json!({ "keys": ["b/1", "b/2", "b/3"], "owner": "w", "ttl_ms": 60_000, "count": 2 });
    let grants = talk.ok("acquire_any", &any).await["grants"].clone();
    let grants = grants.as_array().expect("grants");
    assert_eq!(grants.len(), 2);
    let leases: Vec<_> = grants
        .iter()
        .map(|grant| json!({ "key": grant["key"], "lease_id": grant["lease_id"] }))
        .collect();
    let batch = json!({ "leases": leases });
    let beats = talk.ok("heartbeats", &batch).await;
    assert!(beats["results"].as_array().expect("results").iter().all(|it| it["status"] == 200));
    let released = talk.ok("releases", &batch).await;
    assert!(
        released["results"].as_array().expect("results").iter().all(|it| it["released"] == true)
    );
    // The request id finds the grant by either door.
    let marked = json!({ "key": "c", "owner": "w", "ttl_ms": 60_000, "request_id": "r" });
    let first = talk.ok("acquire", &marked).await;
    let again = server.post("/v1/acquire", &marked).await.ok();
    assert_eq!((&first["lease_id"], &first["token"]), (&again["lease_id"], &again["token"]));
}
