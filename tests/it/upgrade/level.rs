//! A field that only programs of the next level know is written once every node is of that level, and no program that does
//! not know it opens the store from then on.

use std::{collections::BTreeMap, process::Command};

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::lease::Record;

use crate::{
    support::{
        clock::{eventually, sleep_ms},
        dynamo_endpoint::Endpoint,
        nats_server::Server,
        node::Node,
    },
    upgrade::Version,
};

/// How long a node may answer after it last renewed its record.
const NODE_TTL_MS: u64 = 1_000;

/// A store, its settings, and a directory for files.
struct Store {
    sets: Vec<String>,
    dir: tempfile::TempDir,
}

impl Store {
    fn new(sets: &[String]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let witness = format!("node.witness={}", dir.path().join("witness.json").display());
        let ttl = format!("node.ttl={NODE_TTL_MS}ms");
        Self { sets: [sets, &[witness, ttl]].concat(), dir }
    }

    fn nats(server: &Server) -> Self {
        let url = format!("store.nats.url={}", server.url());
        Self::new(&["store.kind=nats".to_owned(), url, "store.nats.replicas=1".to_owned()])
    }

    /// A node of this level, not started yet.
    fn node(&self, name: &str, level: &str) -> Node {
        Node::new(name, &self.sets, &[("TENURE_TEST_LEVEL", level)])
    }

    fn command(&self, level: &str, arguments: &[&str]) -> Command {
        let mut command = Version::This.command();
        command.args(arguments).env("TENURE_TEST_LEVEL", level).current_dir(self.dir.path());
        for set in &self.sets {
            command.args(["--set", set]);
        }
        command
    }

    /// What each key's record has of the new field.
    fn novelties(&self) -> BTreeMap<String, Option<String>> {
        let done = self.command("2", &["backup"]).output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let of_line = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let record = Record::decode(&unhex(line["record"].as_str()?)).expect("a record");
            Some((line["key"].as_str()?.to_owned(), record.novelty.map(String::from)))
        };
        let text = String::from_utf8(done.stdout).expect("UTF-8");
        text.lines().filter_map(of_line).collect()
    }

    /// A program of the first level does not start, and says why.
    fn refuses_the_first_level(&self) {
        let words = ["has level 2", "levels up to 1", "later version"];
        let done = self.command("1", &["serve", "--listen", "127.0.0.1:0"]).output();
        let done = done.expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{word:?}: {said}"));
        let verify = self.command("1", &["store", "verify", "--output", "json"]).output();
        let found = verify.expect("it runs");
        let said = String::from_utf8_lossy(&found.stdout);
        assert_eq!(found.status.code(), Some(1), "{said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{word:?}: {said}"));
        assert!(self.command("2", &["store", "verify"]).status().is_ok_and(|done| done.success()));
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

async fn acquire(node: &Node, key: &str) -> Value {
    let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
    let (status, grant) = node.post("/v1/acquire", &body).await;
    assert_eq!(status, 200, "{grant}");
    grant
}

async fn heartbeat(node: &Node, grant: &Value) {
    let body = json!({ "key": grant["key"], "lease_id": grant["lease_id"] });
    let (status, answer) = node.post("/v1/heartbeat", &body).await;
    assert_eq!((status, &answer["token"]), (200, &grant["token"]), "{answer}");
}

/// Waits until a new grant has the field.
async fn until_new_fields_are_written(store: &Store, node: &Node) {
    let mut tries = 0;
    eventually("a grant with the new field", async || {
        tries += 1;
        let key = format!("try/{tries}");
        acquire(node, &key).await;
        store.novelties()[&key].is_some()
    })
    .await;
}

async fn a_new_field_appears_when_all_nodes_know_it(store: &Store) {
    let (mut old, mut new) = (store.node("old", "1"), store.node("new", "2"));
    old.start().await;
    new.start().await;
    let held = acquire(&new, "held").await;
    acquire(&old, "of-old").await;
    let proof = json!({ "key": held["key"], "lease_id": held["lease_id"] });
    eventually("the old node has heard of the new one", async || {
        old.post("/v1/heartbeat", &proof).await.0 == 200
    })
    .await;
    for round in 0..6 {
        heartbeat(if round % 2 == 0 { &old } else { &new }, &held).await;
        sleep_ms(NODE_TTL_MS / 2).await;
    }
    acquire(&new, "later").await;
    let written = store.novelties();
    assert_eq!(written.len(), 3, "{written:?}");
    assert!(
        written.values().all(Option::is_none),
        "a node that does not know it lives: {written:?}"
    );

    old.stop().await;
    until_new_fields_are_written(store, &new).await;
    heartbeat(&new, &held).await;
    assert_eq!(store.novelties()["later"], None, "what nobody writes stays as it is");
    store.refuses_the_first_level();
    // Another one of the second level reads what was written.
    let mut next = store.node("next", "2");
    next.start().await;
    heartbeat(&next, &held).await;
    // The level stays when nobody is there.
    new.stop().await;
    next.stop().await;
    store.refuses_the_first_level();
}

/// A program that does not know the new field does not restore it, and does not open what it was restored into.
fn a_backup_brings_its_level_along(store: &Store) {
    let file = store.dir.path().join("backup.jsonl").display().to_string();
    let done = store.command("2", &["backup", "--file", &file]).status().expect("it runs");
    assert!(done.success());
    let server = Server::start();
    let other = Store::nats(&server);
    let restore = ["restore", "--file", &file, "--raise-epoch"];
    let refused = other.command("1", &restore).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("levels up to 1"), "{said}");
    let done = other.command("2", &restore).output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    other.refuses_the_first_level();
    assert_eq!(other.novelties(), store.novelties());
}

/// A node that was away while the others went on without it grants nothing when it comes back.
async fn a_node_that_slept_through_the_rise_stops_to_serve(store: &Store) {
    let (mut old, mut new) = (store.node("old", "1"), store.node("new", "2"));
    old.start().await;
    new.start().await;
    acquire(&old, "of-old").await;
    old.signal(Signal::STOP);
    until_new_fields_are_written(store, &new).await;
    old.signal(Signal::CONT);
    eventually("the old node says why it is not ready", async || {
        old.unready().await.contains("has level 2")
    })
    .await;
    sleep_ms(2 * NODE_TTL_MS).await;
    assert!(old.unready().await.contains("level 2"), "it stays so");
    let body = json!({ "key": "more", "owner": "w", "ttl_ms": 1_000 });
    let (status, refused) = old.post("/v1/acquire", &body).await;
    assert_eq!(status, 503, "{refused}");
    acquire(&new, "more").await;
}

fn dynamodb(endpoint: &Endpoint) -> Store {
    Store::new(&[
        "store.kind=dynamodb".to_owned(),
        format!("store.dynamodb.endpoint={}", endpoint.url()),
        "store.dynamodb.create_table=true".to_owned(),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_bucket_a_new_field_appears_when_all_nodes_know_it() {
    let server = Server::start();
    let store = Store::nats(&server);
    a_new_field_appears_when_all_nodes_know_it(&store).await;
    a_backup_brings_its_level_along(&store);
    // The release before levels refuses the store as well.
    let mut serve = Version::Previous.command();
    serve.args(["serve", "--listen", "127.0.0.1:0"]);
    for set in &store.sets {
        serve.args(["--set", set]);
    }
    let refused = serve.output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("version 3"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_table_a_new_field_appears_when_all_nodes_know_it() {
    let endpoint = Endpoint::start();
    a_new_field_appears_when_all_nodes_know_it(&dynamodb(&endpoint)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_bucket_a_node_that_slept_through_the_rise_stops_to_serve() {
    let server = Server::start();
    a_node_that_slept_through_the_rise_stops_to_serve(&Store::nats(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_table_a_node_that_slept_through_the_rise_stops_to_serve() {
    let endpoint = Endpoint::start();
    a_node_that_slept_through_the_rise_stops_to_serve(&dynamodb(&endpoint)).await;
}

#[tokio::test]
async fn a_directory_has_the_level_of_the_program_that_opened_it_last() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
    let store = Store { sets: vec![data], dir };
    let mut node = store.node("the node", "1");
    node.start().await;
    let held = acquire(&node, "held").await;
    node.stop().await;
    assert_eq!(store.novelties()["held"], None);
    // The backup was made by a program of the second level.
    store.refuses_the_first_level();
    let mut node = store.node("the node", "2");
    node.start().await;
    heartbeat(&node, &held).await;
    acquire(&node, "new").await;
    node.stop().await;
    let written = store.novelties();
    assert!(written["new"].is_some() && written["held"].is_none(), "{written:?}");
    let mut serve = Version::Previous.command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--set", &store.sets[0]]);
    let refused = serve.output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("format version 2") && said.contains("use a newer program"), "{said}");
}
