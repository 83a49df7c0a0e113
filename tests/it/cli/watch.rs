//! `tenure watch` from a time that is past.

use super::user::User;
use crate::support::harness::Server;

#[test]
fn what_happened_before_is_printed_and_then_what_happens() {
    let (server, user) = (Server::start(), User::new());
    let run = |arguments: &[&str]| user.at(&server, arguments);
    let acquired = run(&["acquire", "k", "--owner", "w", "--ttl", "60s", "-o", "lease-id"]);
    run(&["acquire", "kk", "--owner", "w", "--ttl", "60s"]).ok();
    run(&["release", "k", "--lease-id", acquired.ok()]).ok();
    // Only the time-out ends it.
    let printed = |arguments: &[&str]| {
        let watched = run(&[&["watch", "--timeout", "2s"], arguments].concat());
        assert_eq!(watched.code, 75, "{watched:?}");
        let words = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words[1..3].join(" ")
        };
        watched.out.lines().map(words).collect::<Vec<_>>()
    };
    let whole = ["granted k", "granted kk", "released k"];
    assert_eq!(printed(&["--since", "1h"]), whole);
    assert_eq!(printed(&["k", "--since", "1h"]), [whole[0], whole[2]]);
    assert_eq!(printed(&["--last", "2"]), whole[1..]);
    assert_eq!(printed(&["--last", "1", "--types", "granted"]), [whole[1]]);
    assert!(printed(&["--since", "2200-01-01T00:00:00Z"]).is_empty());
    assert_eq!(printed(&["-o", "wide", "--last", "1"]), ["EVENT KEY", "released k"]);

    let mut following = user.follow(&server, &["watch", "k", "--last", "1"]);
    assert!(following.line().contains("released"));
    run(&["acquire", "k", "--owner", "w2", "--ttl", "60s"]).ok();
    assert!(following.line().contains("owner=w2"), "nothing is told twice");
}
