//! Fences through the settings: a program, and the log.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::harness::{Grant, Server, assert_no_hole, eventually, kinds, ms};

/// Settings with a program that waits for a file, and writes down what it was asked. It ends with the directory.
fn settings(dir: &Path, policy: &str) -> String {
    let (asked, go) = (dir.join("asked"), dir.join("go"));
    let script = format!(
        "echo \"$TENURE_KEY $TENURE_TOKEN $TENURE_OWNER $TENURE_REASON $TENURE_SESSION\" >> {asked}; \
         while test -e {asked} && ! test -e {go}; do sleep 0.02; done; test \"$(cat {go})\" != fail",
        asked = asked.display(),
        go = go.display()
    );
    format!(
        "[[plugin]]\nname = \"gate\"\nkind = \"exec\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n\
         timeout = \"20s\"\nretries = 0\n\
         [[plugin]]\nname = \"note\"\nkind = \"log\"\n\
         [[policy]]\nprefix = \"f/\"\nfence_timeout = \"20s\"\n{policy}\n"
    )
}

const BEFORE: &str = "fence = [\"gate\", \"note\"]\nfence_when = \"before-grant\"";

fn go(dir: &Path, how: &str) {
    std::fs::write(dir.join("go"), how).expect("a file");
}

fn asked(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("asked")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn acquire(key: &str, owner: &str) -> Value {
    json!({ "key": key, "owner": owner, "ttl_ms": 60_000 })
}

async fn until_state(server: &Server, key: &str, state: &str) {
    eventually(&format!("{key} is {state}"), async || server.lease(key).await["state"] == state)
        .await;
}

#[tokio::test]
async fn before_grant_nobody_gets_the_key_before_every_plugin_confirmed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&settings(dir.path(), BEFORE));
    let grant = server.acquire("f/k", "w", 300).await;
    until_state(&server, "f/k", "fencing").await;
    let refused = server.post("/v1/acquire", &acquire("f/k", "v")).await.problem(423, "fencing");
    assert!(refused["detail"].as_str().is_some_and(|d| d.contains("gate")), "{refused}");
    eventually("the other plugin confirmed", async || {
        server.lease("f/k").await["fences"] == json!(["gate"])
    })
    .await;
    let list = server.get("/v1/leases?state=fencing").await.ok();
    assert_eq!(list["leases"][0]["key"], "f/k", "{list}");
    let any = json!({ "keys": ["f/k"], "owner": "v", "ttl_ms": 1000 });
    let none = server.post("/v1/acquire-any", &any).await.problem(409, "none-available");
    assert_eq!(none["counts"]["fencing"], 1);
    let lost = server.post("/v1/heartbeat", &grant.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "fenced");

    let mut waits = acquire("f/k", "v");
    waits["wait_ms"] = json!(15_000);
    let mut parked = server.park("/v1/acquire", &waits).await;
    server.until_waiters("f/k", 1).await;
    go(dir.path(), "ok");
    let next = Grant::of(&parked.receive().await.ok());
    assert!(next.token > grant.token);
    assert_eq!(asked(dir.path()), [format!("f/k {} w expired ", grant.token)]);
    let events = server.events_of("f/k").await;
    assert_no_hole(&events);
    assert_eq!(kinds(&events), ["granted", "expired", "fencing", "fenced", "granted"]);
    assert!(server.said().lines().any(|line| line.contains("fence") && line.contains("note")));
    for plugin in ["gate", "note"] {
        let series = format!(
            "tenure_fence_duration_seconds_count{{plugin=\"{plugin}\",outcome=\"confirmed\"}}"
        );
        eventually(&series, async || (server.metric(&series).await - 1.0).abs() < 0.1).await;
    }
}

#[tokio::test]
async fn an_ended_sessions_leases_are_fenced_with_its_digest() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&settings(dir.path(), BEFORE));
    let session = server.session("w", 60_000, json!({ "lock_delay_ms": 500 })).await;
    let grant = server.acquire_under("f/k", "w", &session).await;
    server.destroy(&session).await.ok();
    until_state(&server, "f/k", "fencing").await;
    go(dir.path(), "ok");
    let mut waits = acquire("f/k", "v");
    waits["wait_ms"] = json!(15_000);
    server.post("/v1/acquire", &waits).await.ok();
    let order = format!("f/k {} w session-ended {}", grant.token, session.digest);
    assert_eq!(asked(dir.path()), [order]);
    let events = server.events_of("f/k").await;
    let all = ["granted", "session-ended", "fencing", "fenced", "cooled", "granted"];
    assert_eq!(kinds(&events), all, "both, and the key is shut until both are done");
    assert_no_hole(&events);
}

#[tokio::test]
async fn a_fence_that_fails_blocks_until_an_administrator_skips_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&settings(dir.path(), BEFORE));
    let skip = async |server: &Server, reason: &str| {
        let body = json!({ "key": "f/k", "reason": reason });
        server.post("/v1/admin/fence-skip", &body).await
    };
    let grant = server.acquire("f/k", "w", 300).await;
    skip(&server, "too early").await.problem(409, "not-fencing");
    go(dir.path(), "fail");
    eventually("it failed", async || server.lease("f/k").await["fence_failed"] == true).await;
    let refused = server.post("/v1/acquire", &acquire("f/k", "v")).await.problem(423, "fencing");
    assert!(refused["detail"].as_str().is_some_and(|d| d.contains("administrator")), "{refused}");
    let failed = "tenure_fence_duration_seconds_count{plugin=\"gate\",outcome=\"failed\"}";
    assert!(server.metric(failed).await >= 1.0);

    let server = server.kill().restart();
    tokio::time::sleep(ms(300)).await;
    server.post("/v1/acquire", &acquire("f/k", "v")).await.problem(423, "fencing");
    skip(&server, "").await.bad_field("reason");
    skip(&server, &"r".repeat(257)).await.bad_field("reason");
    let lease = skip(&server, "the host is scrapped").await.ok()["lease"].clone();
    assert_eq!(lease["state"], "free", "{lease}");
    assert!(server.acquire("f/k", "v", 60_000).await.token > grant.token);
    let server = server.kill().restart();
    let events = server.events_of("f/k").await;
    assert_no_hole(&events);
    let all = ["granted", "expired", "fencing", "fence-failed", "fence-skipped", "granted"];
    assert_eq!(kinds(&events), all);
    assert!(events[3]["data"]["reason"].as_str().is_some_and(|why| why.contains("gate")));
    assert_eq!(events[4]["data"]["reason"], "the host is scrapped");
    assert_eq!(events[4]["data"]["actor"], "127.0.0.1");
}

#[tokio::test]
async fn a_fence_that_failed_runs_once_more_when_it_is_ordered() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&settings(dir.path(), BEFORE));
    let retry = async |body: Value| server.post("/v1/admin/fence-retry", &body).await;
    let failures = async |key: &str| {
        let events = server.events_of(key).await;
        kinds(&events).iter().filter(|kind| **kind == "fence-failed").count()
    };
    retry(json!({ "reason": "r" })).await.bad_field("key");
    retry(json!({ "key": "f/1", "prefix": "f/", "reason": "r" })).await.bad_field("prefix");
    retry(json!({ "key": "f/1", "plugin": "none", "reason": "r" })).await.bad_field("plugin");
    retry(json!({ "key": "f/1", "reason": "" })).await.bad_field("reason");
    let unknown = retry(json!({ "key": "f/1", "reason": "r" })).await.ok();
    assert_eq!(unknown, json!({ "retried": 0, "more": 0 }));

    go(dir.path(), "fail");
    for key in ["f/1", "f/2", "f/3"] {
        server.acquire(key, "w", 300).await;
    }
    for key in ["f/1", "f/2", "f/3"] {
        eventually("it failed", async || server.lease(key).await["fence_failed"] == true).await;
    }
    // What is not repaired fails again, and that is told.
    let again = retry(json!({ "key": "f/1", "reason": "a try" })).await.ok();
    assert_eq!(again["retried"], 1);
    eventually("it failed again", async || failures("f/1").await == 2).await;
    assert_eq!(server.lease("f/1").await["state"], "fencing");
    assert_eq!(retry(json!({ "plugin": "note", "reason": "r" })).await.ok()["retried"], 0);

    go(dir.path(), "ok");
    let one = retry(json!({ "prefix": "f/2", "plugin": "gate", "reason": "repaired" })).await.ok();
    assert_eq!(one["retried"], 1);
    until_state(&server, "f/2", "free").await;
    assert_eq!(server.lease("f/3").await["state"], "fencing");
    assert_eq!(retry(json!({ "plugin": "gate", "reason": "repaired" })).await.ok()["retried"], 2);
    for key in ["f/1", "f/3"] {
        until_state(&server, key, "free").await;
    }
    let all = ["granted", "expired", "fencing", "fence-failed", "fence-failed", "fenced"];
    let events = server.events_of("f/1").await;
    assert_eq!(kinds(&events), all);
    assert_no_hole(&events);
}

#[tokio::test]
async fn a_reload_runs_failed_fences_once_more() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&settings(dir.path(), BEFORE));
    go(dir.path(), "fail");
    server.acquire("f/1", "w", 300).await;
    eventually("it failed", async || server.lease("f/1").await["fence_failed"] == true).await;
    go(dir.path(), "ok");
    server.signal(Signal::HUP);
    until_state(&server, "f/1", "free").await;
    assert_eq!(kinds(&server.events_of("f/1").await).last().expect("an event"), "fenced");
}

#[tokio::test]
async fn with_alarm_the_key_goes_on_though_the_fence_failed() {
    let dir = tempfile::tempdir().expect("a directory");
    let policy = format!("{BEFORE}\non_fence_failure = \"grant-with-alarm\"");
    let server = Server::configured(&settings(dir.path(), &policy));
    server.acquire("f/k", "w", 300).await;
    go(dir.path(), "fail");
    let mut waits = acquire("f/k", "v");
    waits["wait_ms"] = json!(15_000);
    server.post("/v1/acquire", &waits).await.ok();
    let events = server.events_of("f/k").await;
    assert_eq!(kinds(&events), ["granted", "expired", "fencing", "fence-failed", "granted"]);
    let said = server.said();
    let line = said
        .lines()
        .find(|line| line.contains("a fence of this key failed for good"))
        .expect("people are told");
    assert!(line.contains("key=\"f/k\""), "any key can be told from the rest of the line: {line}");
}

#[tokio::test]
async fn after_grant_the_key_goes_on_and_the_fence_runs_once_somebody_else_has_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let policy = "fence = [\"gate\"]\nfence_when = \"after-grant\"";
    let server = Server::configured(&settings(dir.path(), policy));
    let grant = server.acquire("f/k", "w", 300).await;
    until_state(&server, "f/k", "free").await;
    assert_eq!(asked(dir.path()), [""; 0]);
    // Until then its owner may come back, and nothing is fenced.
    let alive = server.post("/v1/heartbeat", &grant.proof()).await.ok();
    assert_eq!(alive["revived"], true);
    until_state(&server, "f/k", "free").await;
    let next = server.acquire("f/k", "v", 60_000).await;
    eventually("it is asked", async || asked(dir.path()).len() == 1).await;
    assert_eq!(asked(dir.path()), [format!("f/k {} w expired ", grant.token)]);
    assert_eq!(server.lease("f/k").await["fences"], json!(["gate"]));
    go(dir.path(), "ok");
    eventually("it is told", async || {
        kinds(&server.events_of("f/k").await).last().is_some_and(|kind| kind == "fenced")
    })
    .await;
    let events = server.events_of("f/k").await;
    assert_no_hole(&events);
    let last = &events.last().expect("one")["data"];
    assert_eq!((&last["owner"], &last["previous"]["token"]), (&json!("v"), &json!(grant.token)));
    server.post("/v1/heartbeat", &next.proof()).await.ok();
}

#[tokio::test]
async fn a_pending_fence_goes_on_after_a_crash() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::configured(&settings(dir.path(), BEFORE));
    let grant = server.acquire("f/k", "w", 300).await;
    until_state(&server, "f/k", "fencing").await;
    eventually("it is asked", async || asked(dir.path()).len() == 1).await;
    let server = server.kill().restart();
    eventually("it is asked again", async || asked(dir.path()).len() == 2).await;
    server.post("/v1/acquire", &acquire("f/k", "v")).await.problem(423, "fencing");
    go(dir.path(), "ok");
    let mut waits = acquire("f/k", "v");
    waits["wait_ms"] = json!(15_000);
    assert!(Grant::of(&server.post("/v1/acquire", &waits).await.ok()).token > grant.token);
    let events = server.events_of("f/k").await;
    assert_eq!(kinds(&events), ["granted", "expired", "fencing", "fenced", "granted"]);
    assert_no_hole(&events);
}

#[tokio::test]
async fn a_release_is_fenced_where_the_policy_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    for (on_release, state) in [(false, "free"), (true, "fencing")] {
        let policy = format!("{BEFORE}\nfence_on_release = {on_release}");
        let server = Server::configured(&settings(dir.path(), &policy));
        let grant = server.acquire("f/k", "w", 60_000).await;
        server.release(&grant).await;
        assert_eq!(server.lease("f/k").await["state"], state);
    }
}

#[tokio::test]
async fn every_order_of_an_administrator_is_still_told_after_a_crash() {
    let server = Server::start();
    let order = async |how: &str, body: Value| {
        server.post(&format!("/v1/admin/{how}"), &body).await.ok();
    };
    for key in ["revoked", "ended", "drained"] {
        server.acquire(key, if key == "drained" { "leaver" } else { "w" }, 300).await;
    }
    server.acquire("pinned", "w", 60_000).await;
    order("revoke", json!({ "key": "revoked", "reason": "move" })).await;
    order("revoke", json!({ "key": "ended", "reason": "now", "immediately": true })).await;
    order("drain", json!({ "owner": "leaver" })).await;
    order("pin", json!({ "key": "pinned", "by": "ops" })).await;
    order("unpin", json!({ "key": "pinned", "by": "ops" })).await;
    eventually("all ended", async || {
        let list = server.get("/v1/leases?state=held").await.ok();
        list["leases"].as_array().map(Vec::len) == Some(1)
    })
    .await;
    let server = server.kill().restart();
    let page = server.get("/v1/events?format=json&after=0").await.ok();
    let events = page["events"].as_array().expect("events").clone();
    for (key, kind, reason) in [
        ("revoked", "revoked", json!("move")),
        ("ended", "revoked", json!("now")),
        ("drained", "revoked", json!("drain")),
        ("pinned", "pinned", json!("ops")),
        ("pinned", "unpinned", json!("ops")),
    ] {
        let kind = format!("io.tenure.lease.{kind}");
        let found = events.iter().find(|e| e["subject"] == key && e["type"] == kind.as_str());
        let data = &found.unwrap_or_else(|| panic!("{kind} of {key}"))["data"];
        assert_eq!(data["actor"], "127.0.0.1", "{data}");
        assert_eq!(data["reason"], reason, "{data}");
    }
}

#[tokio::test]
async fn what_a_fence_program_complains_of_is_in_the_log_alone() {
    let complaint = "echo 'ipmitool -P s3cr3t-bmc' >&2; head -c 900 /dev/zero | tr '\\0' x >&2; printf '\\033[2J\\nend' >&2";
    let server = Server::configured(&format!(
        "[[plugin]]\nname = \"power\"\nkind = \"exec\"\nretries = 0\n\
         command = [\"/bin/sh\", \"-c\", '''{complaint}; exit 3''']\n\
         [[policy]]\nprefix = \"f/\"\nfence = [\"power\"]\n"
    ));
    server.acquire("f/k", "w", 300).await;
    eventually("it failed", async || server.lease("f/k").await["fence_failed"] == true).await;
    let events = server.events_of("f/k").await;
    assert_eq!(kinds(&events), ["granted", "expired", "fencing", "fence-failed"]);
    assert_eq!(events[3]["data"]["reason"], "power: after 1 try: exit status 3");
    let paths = ["/v1/leases", "/v1/leases/f%2Fk", "/v1/pools", "/v1/events?format=json&after=0"];
    for path in paths {
        let shown = server.get(path).await.text();
        assert!(!shown.contains("s3cr3t"), "{path}: {shown}");
    }
    let refused = server.post("/v1/acquire", &acquire("f/k", "v")).await.problem(423, "fencing");
    assert!(!refused.to_string().contains("s3cr3t"), "{refused}");
    let said = server.said();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("s3cr3t")).collect();
    let [line] = lines[..] else { panic!("{said}") };
    assert!(line.contains("WARN") && line.contains("exit status 3"), "{line}");
    assert!(line.len() < 900 && !line.contains('\u{1b}'), "{line}");
    // Nor is it in what a backup, or a reader of the directory, sees.
    let stopped = server.kill();
    let mut files = std::fs::read_dir(stopped.dir()).expect("the store").flatten();
    let holds =
        |path: &Path| std::fs::read(path).is_ok_and(|b| b.windows(6).any(|w| w == b"s3cr3t"));
    assert!(!files.any(|file| holds(&file.path())), "it is in the store");
}

#[tokio::test]
async fn what_a_plugin_complains_of_is_not_even_in_the_log_where_that_is_set() {
    let plugin = |name: &str, more: &str| {
        format!(
            "[[plugin]]\nname = \"{name}\"\nkind = \"exec\"\nretries = 0\n{more}\
             command = [\"/bin/sh\", \"-c\", \"echo '{name} -P s3cr3t' >&2; exit 3\"]\n"
        )
    };
    let server = Server::configured(&format!(
        "{}{}[[policy]]\nprefix = \"f/\"\nfence = [\"silent\"]\n\
         [[policy]]\nprefix = \"l/\"\nfence = [\"loud\"]\n",
        plugin("silent", "log_detail = false\non = [\"granted\"]\n"),
        plugin("loud", "")
    ));
    for key in ["f/k", "l/k"] {
        server.acquire(key, "w", 300).await;
        eventually("it failed", async || server.lease(key).await["fence_failed"] == true).await;
    }
    eventually("a notification failed", async || server.said().contains("a notification failed"))
        .await;
    let said = server.said();
    assert!(!said.contains("silent -P"), "{said}");
    assert!(said.contains("loud -P s3cr3t"), "{said}");
    let is_of_fence =
        |line: &&str| line.contains("a fence order failed") && line.contains("silent");
    let failed = said.lines().find(is_of_fence);
    assert!(failed.is_some_and(|line| line.contains("exit status 3")), "{said}");
}
