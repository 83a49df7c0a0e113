//! Who may open a stream, and what may be done by it.

use serde_json::json;

use crate::{
    access::cast::{Guarded, acting_as, all_of, principal},
    support::harness::{Grant, Server, Talk, eventually},
};

pub async fn open(guarded: &Guarded, token: &str) -> Talk {
    let shown = format!("Bearer {token}");
    let opened = Talk::open_with(guarded.server.addr, &[("Authorization", &shown)]).await;
    opened.unwrap_or_else(|reply| panic!("{}", reply.text()))
}

#[tokio::test]
async fn whoever_may_hold_leases_may_open_a_stream() {
    let reader = principal("reader", r#"{ verb = "read", prefix = "" }"#);
    let guarded = Guarded::start(&[reader, principal("all", &all_of(""))], &[]);
    let addr = guarded.server.addr;
    let refused = Talk::open_with(addr, &[]).await.err().expect("a refusal");
    refused.problem(401, "unauthenticated");
    let asked = std::time::Instant::now();
    let refused = Talk::open_with(addr, &[("Authorization", "Bearer reader")]).await;
    refused.err().expect("a refusal").problem(403, "forbidden");
    assert!(asked.elapsed().as_secs() < 10, "nobody waits for a body that has no end");
    open(&guarded, "all").await.ok("info", &json!(null)).await;
}

#[tokio::test]
async fn each_call_is_judged_like_one_by_http() {
    let hold = r#"{ verb = "hold", prefix = "in/" }"#;
    let guarded =
        Guarded::start(&[acting_as("worker", hold, "w"), principal("all", &all_of(""))], &[]);
    let mut talk = open(&guarded, "worker").await;
    let acquire = |key: &str, owner: &str| json!({ "key": key, "owner": owner, "ttl_ms": 60_000 });
    let held = Grant::of(&talk.ok("acquire", &acquire("in/k", "w")).await);
    talk.ok("heartbeat", &held.proof()).await;
    let others = guarded.post("all", "/v1/acquire", &acquire("out/k", "x")).await.ok();
    let others = Grant::of(&others);
    for (op, body) in [
        ("acquire", acquire("out/k", "w")),
        ("acquire", acquire("in/k2", "x")),
        ("heartbeat", others.proof()),
        ("release", others.proof()),
        ("revoke", json!({ "key": "in/k", "reason": "r" })),
        ("nodes", json!(null)),
        ("list_leases", json!(null)),
    ] {
        let answer = talk.call(op, &body).await;
        assert_eq!(
            (&answer["status"], &answer["body"]["code"]),
            (&json!(403), &json!("forbidden")),
            "{op} {body}"
        );
    }
    // It is told no more of another's lease than by HTTP, and proves nothing with another's id.
    let stolen = json!({ "key": "in/k", "lease_id": others.lease_id });
    assert_eq!(talk.call("heartbeat", &stolen).await["body"]["code"], "lease-lost");
}

#[tokio::test]
async fn a_stream_ends_when_its_principal_is_removed() {
    let (stayer, leaver) = (principal("stayer", &all_of("")), principal("leaver", &all_of("")));
    let guarded = Guarded::start(&[stayer.clone(), leaver], &[]);
    let mut stays = open(&guarded, "stayer").await;
    let mut leaves = open(&guarded, "leaver").await;
    let busy = json!({ "key": "busy", "owner": "x", "ttl_ms": 600_000 });
    stays.ok("acquire", &busy).await;
    let wait = json!({ "key": "busy", "owner": "w", "ttl_ms": 3_000, "wait_ms": 60_000 });
    leaves.begin("acquire", &wait).await;
    eventually("it waits", async || {
        guarded.get("stayer", "/v1/leases/busy").await.ok()["waiters"] == 1
    })
    .await;
    guarded.reload(&[stayer]).await;
    let (code, reason) = leaves.end().await.expect("a reason");
    assert_eq!(code, 1008);
    assert!(reason.contains("leaver"), "{reason}");
    eventually("it waits no longer", async || {
        guarded.get("stayer", "/v1/leases/busy").await.ok()["waiters"] == 0
    })
    .await;
    stays.ok("info", &json!(null)).await;
}

#[tokio::test]
async fn rates_and_limits_count_calls_and_streams() {
    let limits = "limit = { rate = 5, streams = 1 }\n";
    let limited = format!("{}{limits}", principal("limited", &all_of("")));
    let guarded = Guarded::start(&[limited], &[]);
    let mut talk = open(&guarded, "limited").await;
    let second = [("Authorization", "Bearer limited")];
    let refused = Talk::open_with(guarded.server.addr, &second).await.err().expect("no second");
    refused.problem(429, "limit-reached");
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "reclaim": true });
    let mut grant = None;
    let mut refused = None;
    for _ in 0..20 {
        let answer = talk.call("acquire", &body).await;
        match answer["status"].as_u64() {
            Some(200) => grant = Some(Grant::of(&answer["body"])),
            _ => refused = Some(answer),
        }
    }
    let refused = refused.expect("five calls per second");
    assert_eq!(refused["body"]["code"], "rate-limited", "{refused}");
    assert!(refused["retry_after"].is_u64(), "{refused}");
    // Heartbeats have a rate of their own, of the same size.
    let proof = grant.expect("a grant").proof();
    let mut kept = 0;
    let mut limited = 0;
    for _ in 0..20 {
        let answer = talk.call("heartbeat", &proof).await;
        match answer["body"]["code"].as_str() {
            None => kept += 1,
            Some(code) => {
                assert_eq!(code, "rate-limited");
                limited += 1;
            }
        }
    }
    assert!(kept >= 5 && limited > 0, "{kept} {limited}");
}

#[tokio::test]
async fn a_batch_counts_as_many_heartbeats_as_it_has_leases() {
    let limited = format!("{}limit = {{ rate = 5 }}\n", principal("limited", &all_of("")));
    let guarded = Guarded::start(&[limited], &[]);
    let mut talk = open(&guarded, "limited").await;
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    let proof = Grant::of(&talk.ok("acquire", &body).await).proof();
    let batch = json!({ "leases": vec![proof.clone(); 20] });
    // After the first heartbeat, no message to the actor is needed.
    talk.ok("heartbeat", &proof).await;
    talk.ok("heartbeats", &batch).await;
    for (operation, body) in [("heartbeats", &batch), ("heartbeat", &proof)] {
        let refused = talk.call(operation, body).await;
        assert_eq!(refused["body"]["code"], "rate-limited", "{refused}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_opens_no_stream() {
    let server = Server::start();
    for (headers, code, status) in [
        (vec![("Origin", "http://evil.example")], "foreign-origin", 403),
        (vec![("Sec-Fetch-Site", "cross-site")], "foreign-origin", 403),
        (vec![("Host", "evil.example")], "unknown-host", 421),
        (vec![("x-tenure-forwarded", "1")], "forged-header", 400),
    ] {
        let refused = Talk::open_with(server.addr, &headers).await.err().expect("a refusal");
        refused.problem(status, code);
    }
    let own = format!("http://{}", server.addr);
    let host = server.addr.to_string();
    let opened = Talk::open_with(server.addr, &[("Host", &host), ("Origin", &own)]).await;
    opened.expect("its own page").ok("info", &json!(null)).await;
}

#[tokio::test]
async fn orders_and_refusals_are_in_the_audit_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.log");
    let set = format!("audit.file={}", file.display());
    let hold = principal("worker", r#"{ verb = "hold", prefix = "" }"#);
    let guarded = Guarded::start(&[hold, principal("all", &all_of(""))], &[&set]);
    let mut talk = open(&guarded, "all").await;
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    talk.ok("acquire", &body).await;
    talk.ok("revoke", &json!({ "key": "k", "reason": "r", "immediately": true })).await;
    talk.ok("watch", &json!(null)).await;
    let mut worker = open(&guarded, "worker").await;
    worker.call("pin", &json!({ "key": "k", "by": "b" })).await;
    // Orders have a file of their own.
    let changes = dir.path().join("audit.log.changes");
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let lines = async || read(&file) + &read(&changes);
    let has = |text: &str, parts: &[&str]| {
        text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    };
    eventually("all have a line", async || {
        let text = lines().await;
        has(&text, &["\"change\"", "/v1/admin/revoke", "\"all\"", "\"k\""])
            && has(&text, &["\"read\"", "/v1/events", "\"all\""])
            && has(&text, &["\"refused\"", "/v1/admin/pin", "\"worker\""])
    })
    .await;
    assert!(!lines().await.contains("/v1/acquire"));
}
