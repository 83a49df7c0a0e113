//! A principal that is removed keeps nothing.

use serde_json::json;
use tenure::clock::{Clock as _, SystemClock, rfc3339};

use super::cast::{Guarded, all_of, digest, principal, write};
use crate::support::{
    clock::{eventually, soon},
    harness::{Connection, Grant},
};

const AS_LEAVER: (&str, &str) = ("Authorization", "Bearer leaver");

#[tokio::test]
async fn waits_and_streams_end_at_the_reload_and_leases_run_out() {
    let (stayer, leaver) = (principal("stayer", &all_of("")), principal("leaver", &all_of("")));
    let guarded = Guarded::start(&[stayer.clone(), leaver], &[]);
    let acquire = |key: &str, owner: &str, wait_ms: u64| json!({ "key": key, "owner": owner, "ttl_ms": 3_000, "wait_ms": wait_ms });
    let held = guarded.post("leaver", "/v1/acquire", &acquire("mine", "w", 0)).await.ok();
    let held = Grant::of(&held);
    let busy = json!({ "key": "busy", "owner": "x", "ttl_ms": 600_000 });
    guarded.post("stayer", "/v1/acquire", &busy).await.ok();
    let address = guarded.server.addr;
    let open = async |method: &str, path: &str, body: String| {
        let mut connection = Connection::open(address).await;
        connection.send(method, path, &[AS_LEAVER], body.as_bytes()).await;
        connection
    };
    let mut one = open("POST", "/v1/acquire", acquire("busy", "w", 60_000).to_string()).await;
    let any = json!({ "keys": ["busy"], "owner": "w", "ttl_ms": 3_000, "wait_ms": 60_000 });
    let mut any = open("POST", "/v1/acquire-any", any.to_string()).await;
    let mut poll = open("GET", "/v1/events?format=json&wait_ms=30000", String::new()).await;
    let mut stream = open("GET", "/v1/events", String::new()).await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
    eventually("both calls wait", async || {
        guarded.get("stayer", "/v1/leases/busy").await.ok()["waiters"] == 2
    })
    .await;
    guarded.reload(&[stayer]).await;
    for waiting in [&mut one, &mut any, &mut poll] {
        soon("an answer", waiting.receive()).await.problem(401, "unauthenticated");
    }
    let mut left = Vec::new();
    while let Ok(Some(chunk)) = soon("the end of the stream", stream.chunk()).await {
        left.push(chunk);
    }
    let left = String::from_utf8_lossy(&left.concat()).into_owned();
    assert!(!left.contains("data:"), "no event: {left}");
    let beat = guarded.post("leaver", "/v1/heartbeat", &held.proof()).await;
    beat.problem(401, "unauthenticated");
    // The same lease id, shown by another principal, proves nothing.
    let beat = guarded.post("stayer", "/v1/heartbeat", &held.proof()).await;
    beat.problem(409, "lease-lost");
    eventually("the lease has run out", async || {
        guarded.get("stayer", "/v1/leases/mine").await.ok()["state"] == "free"
    })
    .await;
}

#[tokio::test]
async fn a_token_is_rotated_and_a_bad_file_changes_nothing() {
    let both = |tokens: &str| {
        let may = all_of("");
        format!("[[principal]]\nname = \"p\"\ntoken = [{tokens}]\nowner = \"*\"\nmay = [{may}]\n")
    };
    let (old, new) = (format!("{:?}", digest("old")), format!("{:?}", digest("new")));
    let guarded = Guarded::start(&[both(&old)], &[]);
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 600_000 });
    let held = Grant::of(&guarded.post("old", "/v1/acquire", &body).await.ok());
    guarded.reload(&[both(&format!("{old}, {new}"))]).await;
    for token in ["old", "new"] {
        guarded.post(token, "/v1/heartbeat", &held.proof()).await.ok();
    }
    guarded.reload(&[both(&new)]).await;
    guarded.post("old", "/v1/heartbeat", &held.proof()).await.problem(401, "unauthenticated");
    write(&guarded.file, &["[[principal]]\nname = 7\nmay = []\n".to_owned()]);
    guarded.server.signal(rustix::process::Signal::HUP);
    eventually("the fault is told", async || guarded.server.said().contains("the rights stay"))
        .await;
    guarded.post("new", "/v1/heartbeat", &held.proof()).await.ok();
}

#[tokio::test]
async fn waits_and_streams_end_with_the_last_day() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1000;
    let now = SystemClock::new().wall_ms();
    // For the coordinator, the last day has 20 s left.
    let end = (now / DAY_MS + 2) * DAY_MS;
    let offset = end - 20_000 - now;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("offset");
    std::fs::write(&file, offset.to_string()).expect("written");
    let last_day = &rfc3339(end - 1)[..10];
    let (stayer, leaver) = (principal("stayer", &all_of("")), principal("leaver", &all_of("")));
    let principals = [stayer, format!("{leaver}expires = {last_day}\n")];
    let env = [("TENURE_TEST_WALL_OFFSET", file.to_str().expect("UTF-8"))];
    let guarded = Guarded::configured(&principals, "", &env);
    let busy = json!({ "key": "busy", "owner": "x", "ttl_ms": 600_000 });
    guarded.post("stayer", "/v1/acquire", &busy).await.ok();
    let wait = json!({ "key": "busy", "owner": "w", "ttl_ms": 3_000, "wait_ms": 60_000 });
    let open = async |method: &str, path: &str, body: String| {
        let mut connection = Connection::open(guarded.server.addr).await;
        connection.send(method, path, &[AS_LEAVER], body.as_bytes()).await;
        connection
    };
    let mut wait = open("POST", "/v1/acquire", wait.to_string()).await;
    let mut stream = open("GET", "/v1/events", String::new()).await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
    soon("an answer", wait.receive()).await.problem(401, "unauthenticated");
    assert!(SystemClock::new().wall_ms() + offset >= end, "not before");
    while let Ok(Some(_)) = soon("the end of the stream", stream.chunk()).await {}
    guarded.get("leaver", "/v1/leases").await.problem(401, "unauthenticated");
    guarded.get("stayer", "/v1/leases").await.ok();
}
