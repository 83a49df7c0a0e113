//! The embedded store.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{
        fs::{OpenOptionsExt as _, PermissionsExt as _},
        net::UnixStream,
    },
};

use crate::backup::{
    node::{Place, exists},
    scenario,
};

#[tokio::test]
async fn a_backup_brings_everything_back_under_a_higher_epoch() {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    let mut before = scenario::fill(&node).await;
    let serving = place.file("serving.jsonl");
    let said = place.tenure(&["backup", "--file", &serving, "--output", "json"]).json();
    assert_eq!((said["keys"].as_u64(), said["skipped"].as_u64()), (Some(603), Some(0)));
    node.stop().await;
    let said = place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    assert_eq!((said["keys"].as_u64(), said["skipped"].as_u64()), (Some(603), Some(0)));

    let node = place.serve().await;
    scenario::go_on(&node, &mut before).await;
    place
        .tenure(&["restore", "--file", &file, "--raise-epoch"])
        .refused(1, &["stop the coordinator"]);
    drop(node);
    place
        .tenure(&["restore", "--file", &file, "--raise-epoch"])
        .refused(1, &["holds keys", "away, or name another directory"]);

    fs::remove_dir_all(place.data()).expect("the disk is lost");
    scenario::refused_without_the_epoch(&place, &file);
    assert!(!place.data().exists(), "a refusal makes no store");
    scenario::restore(&place, &file, 1);
    let node = place.serve().await;
    scenario::check(&node, &before, 1).await;
    node.stop().await;

    // A backup of the restored store goes to the next epoch; the first one does too.
    let second = place.file("second.jsonl");
    place.tenure(&["backup", "--file", &second, "--output", "json"]).json();
    fs::remove_dir_all(place.data()).expect("the disk is lost again");
    let said = place.tenure(&["restore", "--input", &second, "--raise-epoch", "--output", "json"]);
    assert_eq!(said.json()["epoch"], 2);
}

#[tokio::test]
async fn a_backup_while_the_store_serves_brings_everything_back() {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    let before = scenario::fill(&node).await;
    let socket = place.data().join("backup.sock");
    let mode = fs::metadata(&socket).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // One that asks for nothing sensible gets nothing, and is in nobody's way.
    let mut odd = UnixStream::connect(&socket).expect("it listens");
    odd.write_all(b"give me all\n").expect("it reads");
    let mut got = String::new();
    odd.read_to_string(&mut got).expect("it ends");
    assert_eq!(got, "");
    let said = place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    assert_eq!(said["keys"], 603);
    let mode = fs::metadata(&file).expect("the backup").permissions().mode();
    assert_eq!(mode & 0o077, 0, "only its owner reads it");
    place.tenure(&["backup", "--file", &file]).refused(1, &["exists"]);
    node.stop().await;
    assert!(!socket.exists());

    fs::remove_dir_all(place.data()).expect("the disk is lost");
    scenario::restore(&place, &file, 1);
    let node = place.serve().await;
    scenario::check(&node, &before, 1).await;
    node.stop().await;
}

#[tokio::test]
async fn a_backup_whose_coordinator_dies_is_none() {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    scenario::fill(&node).await;
    // Somebody else has the turn, and reads nothing.
    let idle = UnixStream::connect(place.data().join("backup.sock")).expect("it listens");
    let mut waits = place.command(&["backup", "--file", &file]).spawn().expect("it starts");
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(waits.try_wait().expect("a child").is_none(), "it waits for its turn");
    drop(node);
    assert!(!waits.wait().expect("a child").success());
    assert!(!exists(&file), "a backup that failed leaves nothing");
    drop(idle);
}

#[tokio::test]
async fn a_file_that_others_may_read_gets_no_backup() {
    let place = Place::embedded();
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
    for (name, mode) in [("open.jsonl", 0o644), ("group.jsonl", 0o640), ("own.jsonl", 0o600)] {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(place.file(name));
        let file = file.expect("a file");
        let ended = place.command(&["backup"]).stdout(file).output().expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr);
        let written = fs::metadata(place.file(name)).expect("the file").len();
        if mode == 0o600 {
            assert!(ended.status.success() && written > 0, "{said}");
        } else {
            assert!(said.contains("umask 077") && written == 0, "{name}: {said}");
        }
    }
}

#[tokio::test]
async fn a_restore_that_was_killed_leaves_nothing_that_is_served() {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    scenario::fill(&node).await;
    node.stop().await;
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    fs::remove_dir_all(place.data()).expect("the disk is lost");
    let mut restore = place.command(&["restore", "--file", &file, "--raise-epoch"]);
    let killed = restore.env("TENURE_TEST_KILL_AT", "write:3:after").output().expect("it runs");
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let served = place.tenure(&["serve", "--listen", "127.0.0.1:0"]);
    served.refused(1, &["restore was cut off", "restore again"]);
    place
        .tenure(&["backup", "--file", &place.file("of-a-part.jsonl")])
        .refused(1, &["restore was cut off"]);
    fs::remove_dir_all(place.data()).expect("it is moved away");
    scenario::restore(&place, &file, 1);
    place.serve().await.stop().await;
}

#[tokio::test]
async fn a_store_with_a_secret_of_its_own_is_not_mixed_with_a_backup() {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    let other = Place::embedded();
    other.serve().await.stop().await;
    other
        .tenure(&["restore", "--file", &file, "--raise-epoch"])
        .refused(1, &["a secret of its own", "name another directory"]);
}

#[tokio::test]
async fn the_epoch_is_raised_in_place() {
    let place = Place::embedded();
    place.tenure(&["restore", "--raise-epoch"]).refused(1, &["there is no embedded store in"]);
    place.tenure(&["backup"]).refused(1, &["there is no embedded store in"]);
    assert!(!place.data().exists());
    let node = place.serve().await;
    let token = node.acquire_and_release("k").await;
    let identity = node.get("/v1/info").await["store_id"].clone();
    place.tenure(&["restore", "--raise-epoch"]).refused(1, &["stop the coordinator first"]);
    node.stop().await;
    assert_eq!(place.tenure(&["restore", "--raise-epoch", "--output", "json"]).json()["epoch"], 1);
    let node = place.serve().await;
    let info = node.get("/v1/info").await;
    assert_eq!(info["epoch"], 1);
    assert_ne!(info["store_id"], identity);
    assert!(node.acquire_and_release("k").await > token + (1 << 42));
}
