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

#[test]
fn each_order_for_a_pool_holds_until_the_one_that_ends_it() {
    let policy = "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\n";
    let (server, user) = (Server::configured(policy), User::new());
    let pool = |arguments: &[&str]| {
        let all = [&["pool"], arguments, &["--reason", "repair", "-o", "json"]].concat();
        user.at(&server, &all)
    };
    let says = |arguments: &[&str], field: &str| pool(arguments).json()[field].clone();
    let by = says(&["freeze", "shards"], "frozen");
    assert_eq!((&by["reason"], &by["by"]), (&"repair".into(), &"127.0.0.1".into()));
    let until = says(&["freeze", "shards", "--for", "30m"], "frozen")["until"].clone();
    assert!(until.is_string(), "{until}");
    assert_eq!(says(&["thaw", "shards"], "frozen"), serde_json::Value::Null);
    assert_eq!(says(&["cordon", "shards", "w"], "cordoned")[0]["owner"], "w");
    assert_eq!(says(&["pause", "shards", "shards/7"], "paused")[0]["key"], "shards/7");
    let shown = user.at(&server, &["pools", "shards"]);
    shown.ok();
    for line in ["w is cordoned, by 127.0.0.1: repair", "shards/7 is paused, by 127.0.0.1: repair"]
    {
        assert!(shown.out.contains(line) || shown.err.contains(line), "{line}: {shown:?}");
    }
    assert_eq!(says(&["uncordon", "shards", "w"], "cordoned"), serde_json::json!([]));
    assert_eq!(says(&["move", "shards", "shards/7", "w"], "paused")[0]["to"], "w");
    let shown = user.at(&server, &["pools", "shards"]);
    let line = "shards/7 goes to w only, by 127.0.0.1: repair";
    assert!(shown.out.contains(line) || shown.err.contains(line), "{line}: {shown:?}");
    assert_eq!(says(&["resume", "shards", "shards/7"], "paused"), serde_json::json!([]));
    assert_eq!(says(&["rebalance", "shards"], "pool"), "shards");
    assert_eq!(says(&["end-guard", "shards"], "guard"), serde_json::Value::Null);
    pool(&["freeze", "shards", "--for", "31d"]).refused(64, "must be from 1s to 30d");
    pool(&["pause", "shards", "other/7"]).refused(64, "key");
    pool(&["freeze", "nowhere"]).refused(66, "nowhere");
    user.at(&server, &["pool", "freeze", "shards"]).refused(64, "--reason");
}
