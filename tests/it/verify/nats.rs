//! A bucket.

use async_nats::jetstream::{self, stream};

use crate::{
    backup::{
        node::Place,
        shared::{lose, nats},
    },
    nats::permissions,
    support::nats_server::{Cluster, Server, Sync},
    verify::{set, verify, verify_with},
};

/// The version of lease records after the one that this program writes.
const NEXT: u8 = 6;

async fn jetstream(server: &Server) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.expect("the server runs"))
}

/// How many messages the bucket has, and the number of the last one.
async fn contents(server: &Server) -> (u64, u64) {
    let mut bucket = jetstream(server).await.get_stream("KV_tenure").await.expect("the bucket");
    let state = &bucket.info().await.expect("its state").state;
    (state.messages, state.last_sequence)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_checked_while_coordinators_serve_and_stays_as_it_is() {
    let server = Server::start();
    let place = nats(&server);
    let node = place.serve().await;
    node.acquire("held", "worker", "v").await;
    node.acquire_and_release("free").await;
    let found = verify(&place);
    found.is_well_but(&[]);
    found.has("records", "ok", &["2 keys, 1 of them held"]);
    found.has("nodes", "ok", &[&*node.url, env!("CARGO_PKG_VERSION")]);
    node.acquire_and_release("more").await;
    node.stop().await;
    let before = contents(&server).await;
    let found = verify(&place);
    found.is_well_but(&[]);
    found.has("nodes", "ok", &["none"]);
    found.has("witness", "ok", &["was seen"]);
    assert_eq!(contents(&server).await, before, "a check writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_is_not_there_yet_is_not_made() {
    let server = Server::start();
    let mut place = nats(&server);
    let found = verify(&place);
    found.is_well_but(&["bucket"]);
    found.has("bucket", "warning", &["the first coordinator makes it"]);
    let none = verify_with(&place, &["--set", "store.nats.create_bucket=false"]);
    none.failed("bucket", &["there is no bucket \"tenure\""]);
    set(&mut place, "store.nats.replicas=3");
    verify(&place).failed("bucket", &["keeps one", "store.nats.replicas = 1"]);
    assert!(jetstream(&server).await.get_stream("KV_tenure").await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_keeps_too_little_fails() {
    let server = Server::start();
    let place = nats(&server);
    let forgetful = stream::Config {
        name: "KV_tenure".to_owned(),
        subjects: vec!["$KV.tenure.>".to_owned()],
        storage: stream::StorageType::Memory,
        allow_rollup: true,
        max_messages_per_subject: 16,
        discard: stream::DiscardPolicy::New,
        ..stream::Config::default()
    };
    jetstream(&server).await.create_stream(forgetful).await.expect("it is made");
    verify(&place).failed("bucket", &["its storage is memory", "accept_data_loss"]);
    let accepted = verify_with(&place, &["--set", "store.nats.accept_data_loss=true"]);
    accepted.is_well_but(&["bucket", "identity"]);
    accepted.has("bucket", "warning", &["its storage is memory"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_copy_on_a_cluster_fails_before_it_is_made() {
    let cluster = Cluster::start(Sync::Default);
    let url = format!("store.nats.url={}", cluster.url());
    let mut place = Place::new(&["store.kind=nats", &url, "store.nats.replicas=1"]);
    verify(&place).failed("bucket", &["a single copy, on a cluster"]);
    set(&mut place, "store.nats.replicas=3");
    verify(&place).is_well_but(&["bucket"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_a_user_lacks_are_named() {
    let server = Server::start_with(Sync::Always, &permissions::authorization());
    let tenure = permissions::place(&server, "tenure", "change-me");
    verify(&tenure).is_well_but(&["bucket"]);
    tenure.serve().await.stop().await;
    verify(&tenure).is_well_but(&[]);
    let backup = permissions::place(&server, "tenure-backup", "change-me-too");
    let words = [
        "$KV.tenure.l.",
        "$KV.tenure.n.",
        "$KV.tenure.meta",
        "$JS.API.STREAM.PURGE.KV_tenure",
        "docs/security.md",
    ];
    let found = verify(&backup);
    found.failed("rights", &words);
    found.has("records", "ok", &["0 keys"]);
    let nobody = permissions::place(&server, "tenure", "guessed");
    verify(&nobody).failed("connection", &["authorization"]);
    // Without the bucket: may it be made?
    let other = ["--set", "store.nats.bucket=other"];
    verify_with(&tenure, &other).failed("bucket", &["JetStream does not answer"]);
    let admin = permissions::place(&server, "admin", "admin");
    verify_with(&admin, &other).is_well_but(&["bucket"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_fails() {
    let mut server = Server::start();
    let place = nats(&server);
    server.kill();
    verify(&place).failed("connection", &["no NATS server was reached"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_later_version_and_one_that_is_none_are_named() {
    let server = Server::start();
    let place = nats(&server);
    let node = place.serve().await;
    node.acquire("later", "worker", "v").await;
    node.acquire_and_release("sound").await;
    node.stop().await;
    let jetstream = jetstream(&server).await;
    let bucket = jetstream.get_stream("KV_tenure").await.expect("the bucket");
    let there = bucket.get_last_raw_message_by_subject("$KV.tenure.l.later").await;
    let next = next_version(&there.expect("its record").payload);
    let put = jetstream.publish("$KV.tenure.l.later", next.into()).await.expect("it is sent");
    put.await.expect("it is stored");
    let words = ["1 of 2 keys", "\"later\"", "has version 6", "or a later one"];
    verify(&place).failed("records", &words);
    let put = jetstream.publish("$KV.tenure.l.later", "x".into()).await.expect("it is sent");
    put.await.expect("it is stored");
    verify(&place).failed("records", &["1 of 2 keys", "\"later\"", "restore a backup"]);
}

/// The message of a record, as a program wrote it whose records have the next version (`src/store/nats/message.rs`).
fn next_version(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let key = usize::from(u16::from_le_bytes([message[1], message[2]]));
    let length = u32::from_le_bytes(message[3..7].try_into().expect("four bytes")) as usize;
    let record = 23 + key..23 + key + length;
    message[record.start] = NEXT;
    let sealed = |bytes: &mut [u8]| {
        let (body, crc) = bytes.split_at_mut(bytes.len() - 4);
        crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    };
    sealed(&mut message[record]);
    sealed(&mut message);
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_went_backwards_fails_where_it_was_seen() {
    let mut server = Server::start();
    let place = nats(&server);
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
    lose(&mut server).await;
    verify(&place).failed("bucket", &["this node saw it before", "a store that went backwards"]);
    // Another node makes the bucket anew.
    let other = nats(&server);
    other.serve().await.stop().await;
    verify(&other).is_well_but(&[]);
    verify(&place).failed("identity", &["another store", "a store that went backwards"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_cut_off_fails() {
    let mut server = Server::start();
    let place = nats(&server);
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    for key in ["a", "b", "c"] {
        node.acquire_and_release(key).await;
    }
    node.stop().await;
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    lose(&mut server).await;
    let mut restore = place.command(&["restore", "--file", &file, "--raise-epoch"]);
    let killed = restore.env("TENURE_TEST_CUT_RESTORE", "2").output().expect("it runs");
    assert_eq!(killed.status.code(), None, "{killed:?}");
    verify(&place).failed("identity", &["cut off", "tenure restore --file FILE --raise-epoch"]);
    place.tenure(&["restore", "--file", &file, "--raise-epoch", "--output", "json"]).json();
    let found = verify(&place);
    found.is_well_but(&[]);
    found.has("records", "ok", &["3 keys"]);
}
