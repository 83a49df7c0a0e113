//! Completion at the cursor: names of the server, at once and in silence.

use std::{net::TcpListener, path::Path};

use tenure::clock::boottime_ms;

use super::user::{Ran, User};
use crate::support::{harness::Server, ports::free_port};

/// What bash would offer at the end of this line.
fn offered(user: &User, server: &str, line: &str) -> String {
    let script = "source <(tenure completions bash)\nCOMP_LINE=$1 COMP_POINT=${#1}\n\
                  COMP_WORDBREAKS=$' \\t\\n\"\\'@><=;|&(:'\n_tenure tenure\nprintf '%s\\n' \"${COMPREPLY[@]}\"";
    let binary = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().expect("a directory");
    let path = std::env::var("PATH").expect("a PATH");
    let mut bash = user.program("bash");
    bash.args(["--norc", "-c", script, "bash", line]);
    bash.env("PATH", format!("{}:{path}", binary.display())).env("TENURE_SERVER", server);
    let ran = User::end(bash);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    ran.ok().replace('\n', " ")
}

#[test]
fn bash_completes_keys_owners_pools_states_and_contexts() {
    let (server, user) = (Server::start(), User::new());
    for (key, owner) in [("jobs/1", "ops:1"), ("jobs/2", "ops:22"), ("other", "x"), ("$(id)", "y")]
    {
        user.at(&server, &["acquire", key, "--owner", owner, "--ttl", "60s"]).ok();
    }
    user.at(&server, &["context", "add", "prod"]).ok();
    let url = format!("http://{}", server.addr);
    for (line, words) in [
        ("tenure get jobs/", "jobs/1 jobs/2"),
        ("tenure get ", "jobs/1 jobs/2 other"),
        ("tenure ls --owner ops:", "1 22"),
        ("tenure ls --owner=x", "x"),
        ("tenure acquire --any jobs/1,o", "jobs/1,other"),
        ("tenure pools d", "default"),
        ("tenure ls --state co", "cooling"),
        ("tenure watch --types fence-s", "fence-skipped"),
        ("tenure --context p", "prod"),
        ("tenure context use p", "prod"),
        ("tenure heartb", "heartbeat"),
        ("tenure sessions he", "heartbeat help"),
        ("tenure -o lease-", "lease-id"),
    ] {
        assert_eq!(offered(&user, &url, line), words, "{line}");
    }
    // The server of the line is asked.
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let line = format!("tenure --server {} get jobs/1", server.addr);
    assert_eq!(offered(&user, &nowhere, &line), "jobs/1");
}

/// `tenure complete` for fish.
fn complete(user: &User, server: &str, words: &[&str]) -> Ran {
    user.run(&[&["--server", server, "complete", "--form", "fish", "--", "tenure"], words].concat())
}

#[test]
fn what_cannot_be_had_in_time_is_left_out_in_silence() {
    let user = User::new();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = silent.local_addr().expect("bound").to_string();
    let nobody = format!("127.0.0.1:{}", free_port());
    for server in [&silent, &nobody, &"no address".to_owned()] {
        let began = boottime_ms();
        let ran = complete(&user, "h:1", &["--server", server, "get", "jo"]);
        assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""), "{server}");
        assert!(boottime_ms() - began < 5_000, "{server}");
    }
}

#[test]
fn the_shell_is_asked_for_file_names_where_they_belong() {
    let user = User::new();
    for words in
        [&["ls", "--ca", ""][..], &["serve", "--config", "x"], &["run", "--key", "k", "--", "l"]]
    {
        assert_eq!(complete(&user, "h:1", words).code, 1, "{words:?}");
    }
    let help = complete(&user, "h:1", &["unp"]);
    assert_eq!(help.ok(), "unpin\tRemove the pin of one name from a key");
}
