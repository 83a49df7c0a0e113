//! Commands for one call, as a script uses them.

use std::{
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;
use tenure::clock::boottime_ms;

use crate::support::harness::Server;

fn tenure(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{}", server.addr)]).args(arguments);
    command.env("USER", "ops").env_remove("TENURE_OWNER").env_remove("TENURE_LEASE_ID");
    command
}

/// Runs it beside the test's own calls.
async fn run(server: &Server, arguments: &[&str]) -> Output {
    let mut command = tenure(server, arguments);
    let ran = tokio::task::spawn_blocking(move || command.output());
    ran.await.expect("no panic").expect("the program runs")
}

#[tokio::test]
async fn what_is_left_after_a_wait_is_printed_and_not_what_the_wait_took() {
    let server = Server::start();
    server.acquire("k", "w", 1500).await;
    let acquire = ["acquire", "k", "--ttl", "10s", "--wait", "10s", "--output", "json"];
    let printed = run(&server, &acquire).await;
    assert!(printed.status.success(), "{printed:?}");
    let now = boottime_ms();
    let grant: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    let left = grant["valid_for_ms"].as_u64().expect("a number");
    assert!((8_000..=10_000).contains(&left), "{grant}");
    let deadline = grant["deadline_boottime_ms"].as_u64().expect("a number");
    assert!((now + 7_000..=now + 10_000).contains(&deadline), "{grant} at {now}");
    assert!(grant["owner"].as_str().expect("an owner").starts_with("ops@"), "{grant}");
}

#[tokio::test]
async fn a_script_is_told_what_is_wrong_in_its_own_language() {
    let server = Server::start();
    let unknown = run(&server, &["get", "k"]).await;
    assert_eq!(unknown.status.code(), Some(66), "{unknown:?}");
    server.acquire("k", "w", 60_000).await;
    let held = run(&server, &["acquire", "k", "--output", "jsonl"]).await;
    assert_eq!(held.status.code(), Some(73), "{held:?}");
    let problem: Value = serde_json::from_slice(&held.stderr).expect("one JSON document");
    assert_eq!((&problem["code"], &problem["lease"]["owner"]), (&"held".into(), &"w".into()));
    assert!(problem["retry_after_ms"].is_u64(), "{problem}");
    let arguments = ["run", "--key", "x", "--grace", "1h", "--output", "json", "--", "true"];
    let wrong = run(&server, &arguments).await;
    let problem: Value = serde_json::from_slice(&wrong.stderr).expect("one JSON document");
    assert_eq!((wrong.status.code(), &problem["exit_code"]), (Some(64), &64.into()));
    assert!(problem["detail"].as_str().expect("words").contains("--grace"), "{problem}");
    let no_file = ["release", "k", "--lease-id", "@/no/such/file", "--output=json"];
    for (arguments, named) in [
        (&["--output", "json", "acquire", "k", "--ttl", "frob"][..], "--ttl"),
        (&["--output", "json", "frob"], "frob"),
        (&no_file, "/no/such/file"),
    ] {
        let wrong = run(&server, arguments).await;
        let problem: Value = serde_json::from_slice(&wrong.stderr).expect("one JSON document");
        assert_eq!((wrong.status.code(), &problem["exit_code"]), (Some(64), &64.into()));
        assert!(problem["detail"].as_str().expect("words").contains(named), "{problem}");
    }
}

#[tokio::test]
async fn two_scripts_that_name_no_owner_wait_for_each_other() {
    let server = Server::start();
    let first = run(&server, &["acquire", "cron", "--ttl", "1s"]).await;
    assert!(first.status.success(), "{first:?}");
    let second = run(&server, &["acquire", "cron", "--ttl", "1s", "--wait", "10s"]).await;
    assert!(second.status.success(), "{second:?}");
}

#[tokio::test]
async fn a_short_ttl_needs_no_grace_of_its_own() {
    let server = Server::start();
    let ran = run(&server, &["run", "--key", "k", "--ttl", "5s", "--", "true"]).await;
    assert!(ran.status.success(), "{ran:?}");
}

#[tokio::test]
async fn a_secret_needs_no_argument() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{}\n", grant.lease_id)).expect("it is written");
    let named = format!("@{}", file.path().display());
    let released = run(&server, &["release", "k", "--lease-id", &named]).await;
    assert!(released.status.success(), "{released:?}");
    tokio::time::timeout(Duration::from_secs(5), server.acquire("k", "next", 1000))
        .await
        .expect("it is free");
}
