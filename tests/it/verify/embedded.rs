//! A directory.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    sync::Arc,
    time::SystemTime,
};

use tenure::{
    lease::{Epoch, Nonce, Record, Revision},
    store::{
        Fresh, LeaseStore as _, WriteOutcome,
        embedded::{EmbeddedStore, Options},
    },
};

use crate::{
    backup::node::Place,
    support::records,
    verify::{set, verify},
};

/// Where the frames of a segment begin.
const FRAMES: u64 = 512;

/// The files of the store, with their contents and when they were changed.
fn files(place: &Place) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let entries = fs::read_dir(place.data()).expect("the directory").flatten();
    let file = |entry: fs::DirEntry| {
        let changed = entry.metadata().expect("metadata").modified().expect("a time");
        let content = fs::read(entry.path()).expect("a file");
        (entry.file_name().to_string_lossy().into_owned(), (content, changed))
    };
    entries.map(file).collect()
}

/// A store that a coordinator left, with a held key and a free one.
async fn left() -> Place {
    let place = Place::embedded();
    let node = place.serve().await;
    node.acquire("held", "worker", "v").await;
    node.acquire_and_release("free").await;
    node.stop().await;
    place
}

#[tokio::test]
async fn a_sound_store_passes_and_stays_as_it_is() {
    let place = left().await;
    let before = files(&place);
    let found = verify(&place);
    found.is_well_but(&[]);
    found.has("records", "ok", &["2 keys, 1 of them held"]);
    found.has("identity", "ok", &["epoch 0"]);
    assert!(files(&place) == before, "a file of the store has changed");
}

#[tokio::test]
async fn a_store_that_serves_is_checked_but_for_its_log() {
    let place = Place::embedded();
    let node = place.serve().await;
    node.acquire("held", "worker", "v").await;
    let found = verify(&place);
    found.is_well_but(&["log"]);
    found.has("log", "warning", &["has the store open"]);
    node.acquire_and_release("free").await;
    node.stop().await;
}

#[test]
fn a_store_that_is_not_there_yet_is_not_made() {
    let place = Place::embedded();
    verify(&place).is_well_but(&["directory"]);
    assert!(!place.data().exists(), "a check makes no directory");
    fs::create_dir(place.data()).expect("a directory");
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o700)).expect("a mode");
    verify(&place).is_well_but(&["identity"]);
    assert_eq!(files(&place).len(), 0, "a check makes no file");
    fs::write(place.data().join("letter"), "x").expect("a file");
    verify(&place).failed("identity", &["letter", "name an empty or missing directory"]);
}

#[tokio::test]
async fn others_who_may_write_to_the_directory_are_told() {
    let place = left().await;
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o777)).expect("a mode");
    let found = verify(&place);
    found.is_well_but(&["directory"]);
    found.has("directory", "warning", &["chmod 0700", "0777"]);
}

#[tokio::test]
async fn damage_and_a_newer_format_are_found_and_left() {
    let place = left().await;
    let segment = place.data().join("log-0000000000000001.seg");
    let file = fs::OpenOptions::new().read(true).write(true).open(&segment).expect("the log");
    let mut byte = [0];
    file.read_exact_at(&mut byte, FRAMES + 44).expect("a byte of the first frame");
    file.write_all_at(&[byte[0] ^ 1], FRAMES + 44).expect("it is changed");
    let before = files(&place);
    verify(&place).failed("log", &["log-0000000000000001.seg is damaged", "restore"]);
    assert!(files(&place) == before, "a file of the store has changed");
    file.write_all_at(&byte, FRAMES + 44).expect("it is as it was");
    verify(&place).is_well_but(&[]);

    let meta = place.data().join("META");
    let mut newer = fs::read(&meta).expect("META");
    newer[8] = 9;
    let end = newer.len() - 4;
    let crc = crc32fast::hash(&newer[..end]).to_le_bytes();
    newer[end..].copy_from_slice(&crc);
    fs::write(&meta, newer).expect("it is replaced");
    verify(&place).failed("identity", &["format version 9", "use a newer program"]);
}

#[tokio::test]
async fn a_restore_that_was_cut_off_fails() {
    let place = left().await;
    fs::write(place.data().join("RESTORING"), Nonce(7).to_string()).expect("a file");
    verify(&place).failed("identity", &["restore was cut off"]);
}

#[tokio::test]
async fn a_record_of_a_later_epoch_is_named() {
    let place = left().await;
    let fresh = Fresh { identity: Nonce(1), secret: [0; 32], created_ms: 0 };
    let options = Options::new(place.data(), fresh);
    let store = EmbeddedStore::open(options, Arc::new(|| 0)).expect("it opens");
    let mut write = records::grant(&records::key("odd"), Revision::ABSENT, "w", 1);
    write.record = Arc::new(Record { epoch: Epoch(3), ..(*write.record).clone() });
    let written = store.compare_and_set(write).await;
    assert!(matches!(written, WriteOutcome::Committed(_)), "{written:?}");
    drop(store);
    let words = ["1 of 3 keys", "\"odd\"", "epoch above the store's", "docs/stores.md"];
    verify(&place).failed("records", &words);
}

#[tokio::test]
async fn what_is_checked_is_the_directory_of_the_settings() {
    let mut place = left().await;
    let elsewhere = format!("store.embedded.data_dir={}", place.file("elsewhere"));
    set(&mut place, &elsewhere);
    let found = verify(&place);
    found.has("directory", "warning", &["elsewhere is missing"]);
}
