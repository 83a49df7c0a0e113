//! `tenure status`, `tenure history` and `tenure top --once`: what somebody on call asks first.

use std::time::Duration;

use serde_json::{Value, json};

use super::user::{Ran, User};
use crate::support::{
    clock::now,
    harness::{Server, eventually},
};

/// A plugin whose fences fail, for the keys below `f/`.
const FAILING: &str = r#"
[[plugin]]
name = "power"
kind = "exec"
command = ["/bin/sh", "-c", "exit 3"]
retries = 0

[[policy]]
prefix = "f/"
pool = "fenced"
fence = ["power"]
"#;

/// How many leases are held beside the keys with failed fences.
const OTHERS: usize = 5_000;

async fn cycle(server: &Server, key: &str, owner: &str, times: usize) {
    for _ in 0..times {
        let grant = server.acquire(key, owner, 60_000).await;
        server.release(&grant).await;
    }
}

#[tokio::test]
async fn three_failed_fences_among_five_thousand_leases_are_found_within_ten_seconds() {
    let (server, user) = (Server::configured(FAILING), User::new());
    for part in 0..OTHERS / 500 {
        let keys: Vec<_> = (0..500).map(|n| format!("k/{part}/{n}")).collect();
        let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 500 });
        server.post("/v1/acquire-any", &body).await.ok();
    }
    for key in ["f/1", "f/2", "f/3"] {
        server.acquire(key, "old", 300).await;
    }
    eventually("the fences failed", async || {
        let keys = server.get("/v1/status").await.ok()["store"]["keys"].clone();
        keys["fences_failed"] == 3 && keys["held"] == OTHERS
    })
    .await;
    let began = now();
    let told = user.at(&server, &["status"]);
    assert!(now().since(began) < Duration::from_secs(10), "{told:?}");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.out.starts_with("3 things need a person\n"), "{told:?}");
    for key in ["f/1", "f/2", "f/3"] {
        assert!(told.out.contains(&format!("CRITICAL  fence-failed  {key}  ")), "{told:?}");
        assert!(told.out.contains(&format!("tenure fence-retry --reason WHY {key}\n")), "{told:?}");
    }
    assert!(told.out.contains("5000 held, 0 offered, 3 fencing"), "{told:?}");
    let document = user.at(&server, &["status", "-o", "json"]);
    let body: Value = serde_json::from_str(&document.out).expect("JSON");
    assert_eq!((document.code, &body["severity"]), (1, &json!("critical")), "{document:?}");
    assert_eq!(user.at(&server, &["status", "--fail-on", "never"]).code, 0);
    // The command that helps does help.
    for key in ["f/1", "f/2", "f/3"] {
        user.at(&server, &["fence-skip", "--reason", "scrapped", key]).ok();
    }
    assert!(user.at(&server, &["status"]).ok().starts_with("nothing needs a person\n"));
}

#[test]
fn a_server_that_is_not_there_is_no_answer_about_what_needs_a_person() {
    let user = User::new();
    user.run(&["--server", "127.0.0.1:1", "status"]).refused(69, "127.0.0.1:1");
}

#[test]
fn the_history_of_a_key_says_who_held_it_how_long_and_why_no_more() {
    let (server, user) = (Server::start(), User::new());
    let run = |arguments: &[&str]| user.at(&server, arguments);
    let acquired = run(&["acquire", "k", "--owner", "w1", "--ttl", "60s", "-o", "lease-id"]);
    run(&["release", "k", "--lease-id", acquired.ok()]).ok();
    run(&["acquire", "k", "--owner", "w2", "--ttl", "60s"]).ok();
    run(&["revoke", "k", "--reason", "stuck", "--immediately"]).ok();
    run(&["acquire", "k", "--owner", "w3", "--ttl", "60s"]).ok();
    let document = run(&["history", "k", "-o", "json"]).json();
    let tenures = document["tenures"].as_array().expect("tenures");
    let ends: Vec<_> = tenures.iter().map(|tenure| (&tenure["owner"], &tenure["end"])).collect();
    let (w1, w2, w3) = (json!("w1"), json!("w2"), json!("w3"));
    let (released, revoked) = (json!("released"), json!("revoked"));
    assert_eq!(ends, [(&w3, &Value::Null), (&w2, &revoked), (&w1, &released)], "{document}");
    assert_eq!((&document["complete"], &document["lease"]["owner"]), (&json!(true), &w3));
    let table = run(&["history", "k"]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<_> = table.ok().lines().map(words).collect();
    assert!(rows.iter().any(|row| row[..2.min(row.len())] == ["TOKEN", "OWNER"]), "{table:?}");
    let revoked = rows.iter().find(|row| row.contains(&"w2".to_owned()) && row.len() > 5);
    let revoked = revoked.unwrap_or_else(|| panic!("{table:?}"));
    assert!(revoked.ends_with(&["revoked".to_owned(), "stuck".to_owned()]), "{table:?}");
    assert_eq!(table.out.matches("granted").count(), 3, "the events: {table:?}");
    let wide = run(&["history", "k", "-o", "wide"]);
    assert!(wide.ok().contains("ACTOR") && wide.out.contains("SESSION"), "{wide:?}");
    assert_eq!(run(&["history", "k", "-o", "jsonl"]).ok().lines().count(), 3);
    let short = run(&["history", "k", "--limit", "1"]);
    assert!(short.err.contains("earlier events"), "{short:?}");
    run(&["history", "none"]).refused(66, "none");
}

#[tokio::test]
async fn a_script_reads_what_changed_most() {
    let (server, user) = (Server::start(), User::new());
    cycle(&server, "jobs/1", "a", 3).await;
    cycle(&server, "jobs/2", "b", 2).await;
    cycle(&server, "other", "a", 1).await;
    let once = |more: &[&str]| user.at(&server, &[&["top", "--once"], more].concat());
    let mut top = Value::Null;
    eventually("all is heard", async || {
        top = once(&["-o", "json"]).json();
        top["rows"][0]["at_least"] == 6 && top["rows"][2]["at_least"] == 2
    })
    .await;
    let first = |told: &Ran| {
        let line = told.ok().lines().nth(1).expect("a row").to_owned();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let keys = once(&[]);
    assert_eq!(first(&keys), "jobs/1 default 6 6 granted 3, released 3");
    assert!(keys.err.contains("changed 0 times at most"), "{keys:?}");
    assert_eq!(first(&once(&["--by", "owners"])), "a 8 8 granted 4, released 4");
    assert_eq!(
        first(&once(&["--sort", "name", "--reverse"])),
        "other default 2 2 granted 1, released 1"
    );
    let cause = once(&["--cause", "released", "--prefix", "jobs/2", "--window", "1m"]);
    assert_eq!(first(&cause), "jobs/2 default 2 2 granted 2, released 2");
    assert_eq!(once(&["--limit", "1", "-o", "jsonl"]).ok().lines().count(), 1);
    assert!(once(&["--prefix", "nothing/"]).err.contains("no changes"));
    once(&["--by", "pools", "--prefix", "a"]).refused(64, "--by keys");
    once(&["--cause", "frozen"]).refused(64, "frozen");
    user.at(&server, &["top"]).refused(64, "--once");
    user.at(&server, &["top", "--interval", "10ms"]).refused(64, "200ms");
}
