//! Leases, sessions and locks in the hands of a shell script.

use std::{process::Command, time::Duration};

use tenure::clock::boottime_ms;

use super::user::User;
use crate::support::{harness::Server, ports::free_port, process::Process};

#[test]
fn a_script_keeps_a_lease_without_curl() {
    let (server, user) = (Server::start(), User::new());
    let run = |arguments: &[&str]| user.at(&server, arguments);
    let acquired = run(&["acquire", "k", "--owner", "w", "--ttl", "60s", "-o", "lease-id"]);
    let id = acquired.ok();
    assert_eq!(id.len(), 32, "{id}");
    let token = run(&["get", "k", "-o", "token"]).ok().to_owned();
    let now = boottime_ms();
    let beat = run(&["heartbeat", "k", "--lease-id", id, "-o", "json"]).json();
    assert_eq!(beat["token"].to_string(), token);
    let left = beat["valid_for_ms"].as_u64().expect("a number");
    assert!((40_000..=60_000).contains(&left), "{beat}");
    let deadline = beat["deadline_boottime_ms"].as_u64().expect("a number");
    assert!((now + 40_000..=boottime_ms() + 60_000).contains(&deadline), "{beat} at {now}");
    let shorter = ["heartbeat", "k", "--lease-id", id, "--ttl", "5s", "--value", "half"];
    let shorter = run(&shorter);
    assert!(shorter.ok().contains("valid_for"), "{shorter:?}");
    let lease = run(&["get", "k", "-o", "json"]).json();
    assert_eq!((&lease["value"], &lease["ttl_ms"]), (&"half".into(), &5_000.into()));
    run(&["release", "k", "--lease-id", id]).ok();
    let late = run(&["heartbeat", "k", "--lease-id", id, "-o", "json"]).problem(73);
    assert_eq!(late["code"], "lease-lost");
}

#[test]
fn who_waits_while_no_coordinator_answers_is_told_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    let server = format!("http://127.0.0.1:{}", free_port());
    command.args(["--server", &server, "acquire", "k", "--wait", "forever"]);
    let waits = Process::start("acquire", &mut command);
    let line = waits.line("tenure: ", Duration::from_secs(8)).unwrap_or_default();
    assert!(line.contains(&server) && line.ends_with("trying again"), "{}", waits.said());
    waits.kill();
}

#[test]
fn a_script_keeps_a_session_without_curl() {
    let (server, user) = (Server::start(), User::new());
    let run = |arguments: &[&str]| user.at(&server, arguments);
    let opened = run(&["sessions", "open", "--owner", "w", "--ttl", "60s", "-o", "session-id"]);
    let id = opened.ok();
    assert_eq!(id.len(), 64, "{id}");
    run(&["acquire", "k", "--owner", "w", "--session", id]).ok();
    let beat = || run(&["sessions", "heartbeat", id, "--progress", "half", "-o", "json"]).json();
    // Right after a grant, the count may not include it.
    assert!((0..100).any(|_| beat()["leases"]["count"] == 1), "{}", beat());
    assert!(beat()["valid_for_ms"].as_u64().is_some_and(|left| left <= 60_000), "{}", beat());
    let rows = run(&["sessions", "heartbeat", id]);
    assert!(rows.ok().contains("leases") && rows.out.contains("valid_for"), "{rows:?}");
    let digest = run(&["sessions", "-o", "json"]).json()["sessions"][0]["digest"].clone();
    let listed = run(&["ls", "--session", digest.as_str().expect("a digest"), "-o", "key"]);
    assert_eq!(listed.ok(), "k");
    assert!(!listed.out.contains(id));
    run(&["sessions", "destroy", id]).ok();
    let late = run(&["sessions", "heartbeat", id, "-o", "json"]).problem(73);
    assert_eq!(late["code"], "session-lost");
}

#[test]
fn a_format_that_a_command_does_not_have_is_refused_before_anything_happens() {
    let (server, user) = (Server::start(), User::new());
    let acquired = user.at(&server, &["acquire", "k", "--ttl", "60s", "-o", "lease-id"]);
    let release = ["release", "k", "--lease-id", acquired.ok(), "-o", "token"];
    user.at(&server, &release).refused(64, "no --output token");
    let open = ["sessions", "open", "-o", "lease-id"];
    user.at(&server, &open).refused(64, "no --output lease-id");
    assert_eq!(user.at(&server, &["ls", "-o", "key"]).ok(), "k", "it is still held");
    assert_eq!(user.at(&server, &["sessions", "-o", "jsonl"]).ok(), "");
}

#[test]
fn a_lock_has_one_holder_or_as_many_as_it_has_slots() {
    let (server, user) = (Server::start(), User::new());
    let lock = |arguments: &[&str]| {
        let program = ["--", "sh", "-c", "echo $TENURE_KEY; exit 3"];
        user.at(&server, &[&["lock"], arguments, &program].concat())
    };
    let alone = lock(&["k"]);
    assert_eq!((alone.code, alone.out.as_str()), (3, "k\n"), "{alone:?}");
    for held in ["k", "k/1"] {
        user.at(&server, &["acquire", held, "--ttl", "60s"]).ok();
    }
    lock(&["k"]).refused(73, "k");
    let second = lock(&["-n", "2", "k"]);
    assert_eq!((second.code, second.out.as_str()), (3, "k/2\n"), "{second:?}");
    user.at(&server, &["acquire", "k/2", "--ttl", "60s"]).ok();
    assert_eq!(lock(&["-n", "2", "k"]).code, 73);
}

#[test]
fn a_server_is_named_as_everybody_writes_it_first() {
    let (server, user) = (Server::start(), User::new());
    let bare = server.addr.to_string();
    user.run(&["--server", &bare, "acquire", "k", "--ttl", "60s"]).ok();
    let mut by_environment = user.command(&["ls", "-o", "key"]);
    by_environment.env("TENURE_SERVER", &bare);
    assert_eq!(User::end(by_environment).ok(), "k");
    user.run(&["--server", "nowhere", "ls"]).refused(64, "nowhere");
}
