//! A store that does not open says so, names the file, and says what to do; the exit code is 1.

use std::{fs, path::Path};

use crate::support::{harness::Server, process::Ended};

const RESTORE: &str =
    "restore a backup into an empty one: tenure restore --file FILE --raise-epoch";

/// A store with some grants, left by kill -9.
async fn store() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Server::at(dir.path(), &["store.embedded.segment_size=64KiB"]);
    for n in 0..20 {
        server.acquire(&format!("k{n}"), "w", 60_000).await;
    }
    server.kill();
    dir
}

fn refused(dir: &Path, file: &str, says: &[&str]) {
    let Ended { status, said } = Server::refuse(dir, &[]);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let file = if file.is_empty() { dir.to_owned() } else { dir.join(file) };
    for says in says.iter().chain([&file.to_str().expect("UTF-8")]) {
        assert!(said.contains(says), "{says:?} is not in:\n{said}");
    }
}

/// Changes a file, looks at the refusal, and puts it back.
fn with(dir: &Path, file: &str, change: impl FnOnce(&mut Vec<u8>), says: &[&str]) {
    let path = dir.join(file);
    let sound = fs::read(&path).expect("it is there");
    let mut bytes = sound.clone();
    change(&mut bytes);
    fs::write(&path, bytes).expect("it can be written");
    refused(dir, file, says);
    fs::write(&path, sound).expect("it can be written");
}

const FIRST: &str = "log-0000000000000001.seg";

#[tokio::test]
async fn each_damage_is_named_with_what_to_do() {
    let dir = store().await;
    let dir = dir.path();
    with(dir, "META", |bytes| bytes[60] ^= 1, &["wrong checksum", RESTORE]);
    with(dir, "META", Vec::clear, &["is not the META of a store", RESTORE]);
    with(dir, "META", |bytes| bytes.truncate(40), &["wrong size", RESTORE]);
    let newer = |bytes: &mut Vec<u8>| {
        bytes[8] = 9;
        bytes.extend([0; 2]);
    };
    with(dir, "META", newer, &["format version 9", "use a newer program"]);
    with(dir, "MARK", |bytes| bytes[5] ^= 1, &["is damaged", RESTORE, "remove this file"]);
    with(dir, FIRST, |bytes| bytes[3] ^= 1, &["damaged at byte 0 (its header)", RESTORE]);
    with(dir, FIRST, |bytes| bytes[600] ^= 1, &["damaged at byte 512", RESTORE]);
    with(dir, FIRST, |bytes| bytes.truncate(2_000), &["its size has changed", RESTORE]);
    with(dir, FIRST, |bytes| bytes.fill(0), &["it is empty", RESTORE]);
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).expect("it is used");
    let last = |bytes: &mut Vec<u8>| {
        let at = used(bytes);
        bytes[at] ^= 1;
    };
    with(dir, FIRST, last, &["the log continued beyond this place", RESTORE]);
    let tail = |bytes: &mut Vec<u8>| {
        let at = used(bytes);
        bytes[at - 900..].fill(0);
    };
    with(dir, FIRST, tail, &["the log continued beyond this place", RESTORE]);

    let away = dir.join("away");
    fs::rename(dir.join(FIRST), &away).expect("it is there");
    refused(dir, FIRST, &["the file is missing", RESTORE]);
    fs::rename(&away, dir.join(FIRST)).expect("it is there");
    fs::rename(dir.join("META"), &away).expect("it is there");
    refused(dir, "META", &["is missing, though the log is there", RESTORE]);
    fs::rename(&away, dir.join("META")).expect("it is there");

    // Nothing was changed by any of these.
    let server = Server::at(dir, &["store.embedded.segment_size=64KiB"]);
    for n in 0..20 {
        assert_eq!(server.lease(&format!("k{n}")).await["state"], "held");
    }
    refused(dir, "", &["is in use by another process", "stop that process, or name"]);
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("thesis.tex"), "x").expect("a file");
    refused(dir.path(), "", &["thesis.tex", "name an empty or missing directory"]);
}
