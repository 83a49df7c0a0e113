//! Lists: what is shown, in which order, and in which colour.

use super::user::User;
use crate::support::harness::Server;

/// A server with the held keys `a`, `c`, `e`, and the free ones `b`, `d`.
fn served(user: &User) -> Server {
    let server = Server::start();
    for (key, owner) in [("a", "w3"), ("b", "w"), ("c", "w2"), ("d", "w"), ("e", "w1")] {
        let acquire = ["acquire", key, "--owner", owner, "--ttl", "60s", "-o", "lease-id"];
        let acquired = user.at(&server, &acquire);
        if owner == "w" {
            user.at(&server, &["release", key, "--lease-id", acquired.ok()]).ok();
        }
    }
    server
}

fn keys(user: &User, server: &Server, arguments: &[&str]) -> String {
    let listed = user.at(server, &[&["ls", "-o", "key"], arguments].concat());
    listed.ok().replace('\n', "")
}

#[test]
fn free_keys_are_listed_when_they_are_asked_for() {
    let user = User::new();
    let server = served(&user);
    let keys = |arguments: &[&str]| keys(&user, &server, arguments);
    assert_eq!(keys(&[]), "ace");
    assert_eq!(keys(&["--all-states"]), "abcde");
    assert_eq!(keys(&["--state", "free"]), "bd");
    assert_eq!(keys(&["--owner", "w2"]), "c");
    assert_eq!(keys(&["--pool", "default", "--prefix", "e"]), "e");
    user.at(&server, &["ls", "--pool", "none"]).refused(64, "no policy of the settings names it");
}

#[test]
fn a_page_has_as_many_rows_as_were_asked_for_whatever_is_left_out() {
    let user = User::new();
    let server = served(&user);
    let first = user.at(&server, &["ls", "-o", "key", "--limit", "2"]);
    assert_eq!((first.ok(), first.err.contains("--after 'c'")), ("a\nc", true), "{first:?}");
    assert_eq!(keys(&user, &server, &["--limit", "2", "--after", "c"]), "e");
    assert_eq!(keys(&user, &server, &["--limit", "2", "--all-states"]), "ab");
    let lines = user.at(&server, &["ls", "-o", "jsonl", "--limit", "2"]);
    assert_eq!(lines.ok().lines().count(), 2, "{lines:?}");
    let document = user.at(&server, &["ls", "-o", "json", "--limit", "2"]).json();
    assert_eq!((&document["next"], &document["leases"][1]["key"]), (&"c".into(), &"c".into()));
}

#[test]
fn rows_are_in_the_order_that_was_asked_for() {
    let user = User::new();
    let server = served(&user);
    let keys = |arguments: &[&str]| keys(&user, &server, arguments);
    assert_eq!(keys(&["--sort", "owner"]), "eca");
    assert_eq!(keys(&["--sort", "owner", "--reverse", "--limit", "2"]), "ac");
    assert_eq!(keys(&["--sort", "held-for", "--limit", "1"]), "a", "the longest first");
}

#[test]
fn a_wide_table_says_where_a_lease_is() {
    let user = User::new();
    let server = served(&user);
    let narrow = user.at(&server, &["ls"]);
    let head: Vec<&str> =
        narrow.ok().lines().next().expect("a heading").split_whitespace().collect();
    assert_eq!(head, ["KEY", "STATE", "OWNER", "TOKEN", "HELD_FOR", "EXPIRES_IN", "WAITERS"]);
    let wide = user.at(&server, &["ls", "-o", "wide", "--prefix", "a"]);
    let node = format!("http://{}", server.addr);
    for part in ["POOL", "NODE", "SESSION", "FENCES", "default", &node] {
        assert!(wide.ok().contains(part), "{part} is not in {wide:?}");
    }
    let nodes = user.at(&server, &["nodes", "-o", "wide"]);
    assert!(nodes.ok().contains("INCARNATION"), "{nodes:?}");
    assert_eq!(nodes.out.lines().count(), 2, "{nodes:?}");
}

#[test]
fn an_empty_list_says_of_what_there_is_none() {
    let (server, user) = (Server::start(), User::new());
    for (list, none) in [("ls", "no leases"), ("sessions", "no sessions")] {
        let empty = user.at(&server, &[list]);
        assert_eq!((empty.ok(), empty.err.contains(none)), ("", true), "{empty:?}");
    }
    assert_eq!(user.at(&server, &["ls", "-o", "json"]).json()["leases"], serde_json::json!([]));
}

#[test]
fn colours_are_for_terminals_unless_they_are_wanted() {
    let user = User::new();
    let server = served(&user);
    let held = "\u{1b}[32mheld\u{1b}[0m";
    assert!(!user.at(&server, &["ls"]).ok().contains('\u{1b}'), "a pipe is no terminal");
    assert!(user.at(&server, &["ls", "--color", "always"]).ok().contains(held));
    let url = format!("http://{}", server.addr);
    // A terminal: `script` runs the command on one.
    let on_terminal = |more: &str| {
        let tenure = env!("CARGO_BIN_EXE_tenure");
        let line = format!("{tenure} --server {url} ls {more}");
        let mut script = user.program("script");
        script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm");
        script
    };
    assert!(User::end(on_terminal("")).ok().contains(held));
    assert!(!User::end(on_terminal("--color never")).ok().contains('\u{1b}'));
    let mut no_color = on_terminal("");
    no_color.env("NO_COLOR", "1");
    assert!(!User::end(no_color).ok().contains('\u{1b}'));
}

#[test]
fn a_table_that_is_watched_shows_what_has_changed() {
    let user = User::new();
    let server = served(&user);
    let mut following = user.follow(&server, &["ls", "--watch=100ms", "--prefix", "n"]);
    following.line_with("KEY");
    user.at(&server, &["acquire", "new", "--owner", "w9", "--ttl", "60s"]).ok();
    let row = following.line_with("new");
    assert!(row.contains("w9") && row.contains("held"), "{row}");
    user.at(&server, &["ls", "-w", "-o", "json"]).refused(64, "tenure watch");
}
