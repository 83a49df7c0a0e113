//! The files of agents: names and tokens that are read, and temporary files that somebody removes.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command};

use rustix::process::Signal;
use serde_json::json;

use crate::{
    support::{harness::process::Server, http},
    work::{
        agent::{Agent, Place, lease},
        process::{PATIENCE, within},
    },
};

/// Writes where its lease file is, and goes on until it may end. Then it leaves a value.
const PROGRAM: &str = "echo $TENURE_LEASE_FILE > $D/file; until test -e $D/end; do sleep 0.05; done; \
                       echo left > $TENURE_VALUE_FILE; touch $D/done";

fn tenure(server: &Server, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["--server", &format!("http://{}", server.addr)]).args(args.split_whitespace());
    command
}

fn start(place: &Place, server: &Server, args: &str, line: &str) -> Agent {
    let mut command = tenure(server, args);
    command
        .args(["--", "/bin/sh", "-c", line])
        .env("TMPDIR", place.path(""))
        .env_remove("XDG_RUNTIME_DIR");
    place.start(command)
}

#[tokio::test]
async fn temporary_files_that_were_removed_come_back() {
    for args in
        ["run --key k --ttl 2s", "work --pool default --keys k --ttl 2s --restart on-failure"]
    {
        let (server, place) = (Server::start(), Place::new());
        let mut agent = start(&place, &server, args, PROGRAM);
        let file = || PathBuf::from(place.read("file").trim());
        assert!(within(PATIENCE, async || file().exists() && file().is_absolute()).await, "{args}");
        let dir = file().parent().expect("a directory").to_owned();
        fs::remove_dir_all(&dir).expect("somebody may remove it");
        assert!(within(PATIENCE, async || file().exists()).await, "{args}");
        assert_eq!(fs::metadata(&dir).expect("it is back").permissions().mode() & 0o777, 0o700);
        fs::write(place.path("end"), "").expect("a file");
        if args.starts_with("work") {
            assert!(within(PATIENCE, async || place.path("done").exists()).await);
            agent.signal(Signal::TERM);
        }
        assert_eq!(agent.over().await.code(), 0, "{args}");
        assert_eq!(lease(server.addr, "k").await["value"], "left\n", "{args}");
        assert!(!dir.exists(), "{args}: nothing is left behind");
    }
}

#[tokio::test]
async fn files_that_cannot_come_back_are_told_of() {
    let (server, place) = (Server::start(), Place::new());
    let tmp = place.path("tmp");
    fs::create_dir(&tmp).expect("a directory");
    let mut command = tenure(&server, "run --key k --ttl 2s -- /bin/sh -c");
    command.arg(PROGRAM).env("TMPDIR", &tmp).env_remove("XDG_RUNTIME_DIR");
    let mut agent = place.start(command);
    let said = agent.said();
    assert!(within(PATIENCE, async || !place.read("file").trim().is_empty()).await);
    fs::remove_dir_all(&tmp).expect("somebody may remove it");
    let told =
        || said.lock().expect("no panic").iter().filter(|l| l.contains("lease file")).count();
    assert!(within(PATIENCE, async || told() > 0).await, "{said:?}");
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(told(), 1, "once: {said:?}");
    agent.signal(Signal::TERM);
    agent.over().await;
}

#[tokio::test]
async fn lists_of_names_are_trimmed_wherever_they_are_read() {
    let (server, place) = (Server::start(), Place::new());
    fs::write(place.path("keys"), "\u{feff}a/1\r\n\n  a/2 \r\n# a comment\n#a/3\n")
        .expect("a file");
    let keys = async || {
        let url = format!("http://{}/v1/leases?state=held", server.addr);
        let listed = http::client().get(url).send().await.expect("an answer");
        let listed: serde_json::Value = listed.json().await.expect("JSON");
        let rows = listed["leases"].as_array().expect("a list").iter();
        rows.map(|row| row["key"].as_str().expect("a key").to_owned()).collect::<Vec<_>>()
    };
    let file = place.path("keys");
    for option in [["--keys-from", file.to_str().expect("text")], ["--keys", "a/1,\u{a0}a/2"]] {
        let mut command = tenure(&server, "work --pool default");
        command.args(option).args(["--", "/bin/sleep", "60"]);
        let mut agent = place.start(command);
        assert!(
            within(PATIENCE, async || keys().await == ["a/1", "a/2"]).await,
            "{:?}",
            keys().await
        );
        agent.signal(Signal::TERM);
        assert_eq!(agent.over().await.code(), 0);
    }
    for option in ["--any", "--all"] {
        let mut command = tenure(&server, "acquire --count 2");
        if option == "--all" {
            command = tenure(&server, "acquire");
        }
        command.args([option, " a/1, a/2 ", "--owner", "w"]);
        let over = place.start(command).over().await;
        assert_eq!(over.code(), 0, "{}", over.stderr);
        assert_eq!(keys().await, ["a/1", "a/2"], "{option}");
        for key in ["a/1", "a/2"] {
            let revoke = json!({ "key": key, "reason": "a test", "immediately": true });
            server.post("/v1/admin/revoke", &revoke).await.ok();
        }
    }
    for empty in ["a/1,,a/2", "a/1,"] {
        let mut command = tenure(&server, "acquire");
        command.args(["--any", empty]);
        let over = place.start(command).over().await;
        assert_eq!(over.code(), 64);
        assert!(over.stderr.contains("empty name"), "{}", over.stderr);
    }
}

#[tokio::test]
async fn an_empty_variable_is_no_value() {
    let (server, place) = (Server::start(), Place::new());
    for name in [
        "TENURE_OWNER",
        "TENURE_SESSION_ID",
        "TENURE_CA",
        "TENURE_TOKEN_FILE",
        "TENURE_TLS_CERT",
        "TENURE_PROXY",
    ] {
        let mut command = tenure(&server, "acquire --ttl 5s --any a,b,c,d,e,f");
        command.env(name, "");
        let over = place.start(command).over().await;
        assert_eq!(over.code(), 0, "{name}: {}", over.stderr);
    }
}

#[tokio::test]
async fn what_cannot_be_printed_is_given_back() {
    let (server, place) = (Server::start(), Place::new());
    for args in ["acquire k", "acquire --any k,l", "acquire --all k,l", "sessions open"] {
        // The second reader has left before anything is written.
        for line in ["exec \"$@\" >/dev/full", "exec 3> >(exec true); sleep 0.3; exec \"$@\" >&3"] {
            let mut command = Command::new("/bin/bash");
            command.args(["-c", line, "bash", env!("CARGO_BIN_EXE_tenure")]);
            command.args(["--server", &format!("http://{}", server.addr)]);
            command.args(args.split_whitespace());
            let over = place.start(command).over().await;
            assert_eq!(over.code(), 1, "{args}: {}", over.stderr);
            let done = ["the command released each lease", "the command ended the session"];
            let is_told = done.iter().any(|done| over.stderr.contains(done));
            assert!(is_told, "{args}: {}", over.stderr);
            for key in ["k", "l"] {
                assert_ne!(lease(server.addr, key).await["state"], "held", "{args}");
            }
        }
    }
}
