//! Orders of administrators.

use super::user::User;
use crate::support::harness::Server;

#[test]
fn a_key_is_pinned_until_each_name_has_unpinned_it() {
    let (server, user) = (Server::start(), User::new());
    let run = |arguments: &[&str]| user.at(&server, arguments);
    run(&["acquire", "k", "--owner", "w", "--ttl", "60s"]).ok();
    let pinned = || run(&["get", "k", "-o", "json"]).json()["pinned"].clone();
    run(&["pin", "k"]).ok();
    let answer = run(&["pin", "k", "--by", "maintenance", "-o", "json"]).json();
    assert_eq!(
        (&answer["lease"]["pinned"], &answer["lease"]["owner"]),
        (&true.into(), &"w".into())
    );
    run(&["unpin", "k", "--by", "maintenance"]).ok();
    assert_eq!(pinned(), true, "the pin of the user is left");
    run(&["unpin", "k", "--by", "ops"]).ok();
    assert_eq!(pinned(), false, "it was the default name");
}

#[test]
fn a_drain_ends_all_that_an_owner_holds_but_what_is_pinned() {
    let (server, user) = (Server::start(), User::new());
    let run = |arguments: &[&str]| user.at(&server, arguments);
    for key in ["a", "b", "c"] {
        run(&["acquire", key, "--owner", "w", "--ttl", "60s"]).ok();
    }
    run(&["pin", "c"]).ok();
    let drained = run(&["drain", "w", "-o", "json"]).json();
    assert_eq!((&drained["revoked"], &drained["pinned"]), (&2.into(), &1.into()), "{drained}");
    let nobody = run(&["drain", "x"]);
    nobody.ok();
    assert!(nobody.err.contains("x holds nothing"), "{nobody:?}");
}
