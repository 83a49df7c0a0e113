//! A secret that leaked is replaced: what was made with it is worth nothing, and no node goes on by itself.

use std::{collections::HashMap, sync::Arc};

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure::{
    clock::SystemClock,
    http::{Nodes, Seal},
    lease::{ClusterSecret, Key, Level, Nonce, Record},
};

use crate::{
    backup::{
        node::{Node, Place, eventually},
        scenario::LOST,
        shared::{Bucket, Table, lose, nats},
    },
    support::{http, nats_server},
};

const ROTATE: [&str; 5] = ["secret", "rotate", "--raise-epoch", "--output", "json"];

/// What somebody has who read the store.
struct Stolen {
    secret: ClusterSecret,
    /// The nonces of the present grants.
    grants: HashMap<String, Nonce>,
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("digits");
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

impl Stolen {
    /// From a backup, which has all that the store has.
    fn from(place: &Place, name: &str) -> Self {
        let file = place.file(name);
        place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
        let text = std::fs::read_to_string(file).expect("the backup");
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let secret = unhex(&lines[0]["secret"]).try_into().expect("32 bytes");
        let held = lines.iter().filter_map(|line| {
            let record = Record::decode(&unhex(line.get("record")?)).expect("a record");
            Some((line["key"].as_str()?.to_owned(), record.tenure?.grant_nonce))
        });
        Self { secret: ClusterSecret::new(&secret), grants: held.collect() }
    }

    fn lease_id(&self, key: &str, grant: Nonce) -> Value {
        json!(self.secret.lease_id(&Key::new(key).expect("a key"), grant).reveal())
    }

    /// Calls a node as another node would; the status and the answer.
    async fn forward(&self, node: &Node) -> (u16, Value) {
        let (clock, nodes) = (Arc::new(SystemClock::new()), Arc::new(Unknown));
        let seal = Seal::new(&self.secret, "http://127.0.0.1:1", clock, nodes);
        let run = run_of(node).await;
        let body = json!({ "key": "held", "by": "ops" });
        let call = http::client().post(format!("{}/v1/admin/pin", node.url)).json(&body);
        let call = call.header("x-tenure-forwarded-for", "10.0.0.7");
        let mut call = call.build().expect("a request");
        seal.seal(Nonce(7), (run, &node.url), &mut call);
        let answer = http::client().execute(call).await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }
}

/// The nodes of a store, as a thief of its secret knows them.
struct Unknown;

impl Nodes for Unknown {
    fn is_own(&self, _: Nonce) -> bool {
        false
    }

    fn seal_of(&self, _: Nonce) -> Option<u8> {
        None
    }

    fn level(&self) -> Level {
        Level::FIRST
    }
}

/// The incarnation of a node.
async fn run_of(node: &Node) -> Nonce {
    let nodes = node.get("/v1/nodes").await;
    let this = nodes["nodes"].as_array().expect("nodes").iter().find(|node| node["this"] == true);
    let run = this.expect("this node")["incarnation"].as_str().expect("digits");
    Nonce(u128::from_str_radix(run, 16).expect("digits"))
}

/// The status and the code of a call that proves a lease with this id.
async fn proven(node: &Node, path: &str, lease_id: &Value) -> (u16, Value) {
    let (status, answer) = node.post(path, &json!({ "key": "held", "lease_id": lease_id })).await;
    (status, answer["code"].clone())
}

async fn what_was_made_with_the_old_secret_is_void(place: &Place, alive: &[&str]) {
    let node = place.serve().await;
    let held = node.acquire("held", "worker", "v").await;
    place.tenure(&ROTATE).refused(1, alive);
    place.tenure(&ROTATE[..2]).refused(64, &["--raise-epoch", "must acquire or reclaim"]);
    node.stop().await;
    let old = Stolen::from(place, "stolen.jsonl");
    assert_eq!(old.lease_id("held", old.grants["held"]), held["lease_id"], "it is worth a lease");

    for epoch in [1, 2] {
        let said = place.tenure(&ROTATE).json();
        assert_eq!(said, json!({ "rotated": true, "epoch": epoch }));
    }
    let node = place.serve().await;
    assert_eq!(node.get("/v1/info").await["epoch"], 2);
    let proof = json!({"key": "held", "lease_id": held["lease_id"]});
    node.refused("/v1/heartbeat", proof, LOST).await;
    let again = json!({"key": "held", "owner": "worker", "ttl_ms": 600_000, "reclaim": true});
    let again = node.call("/v1/acquire", again).await;
    assert!(again["token"].as_u64() > held["token"].as_u64().map(|was| was + (1 << 43)), "{again}");

    let (status, refused) = old.forward(&node).await;
    assert_eq!((status, &refused["code"]), (400, &json!("forged-header")));
    node.stop().await;
    let new = Stolen::from(place, "now.jsonl");
    let grant = new.grants["held"];
    assert_eq!(new.lease_id("held", grant), again["lease_id"], "ids come from the new secret");
    let node = place.serve().await;
    // Its home node is this one from now on.
    let proof = json!({ "key": "held", "lease_id": again["lease_id"] });
    node.call("/v1/heartbeat", proof).await;
    let forged = old.lease_id("held", grant);
    for path in ["/v1/heartbeat", "/v1/release"] {
        let (status, code) = proven(&node, path, &forged).await;
        assert!(status == 409 && (code == "not-holder" || code == "lease-lost"), "{status} {code}");
    }
    assert_eq!(old.forward(&node).await.0, 400);
    assert_eq!(new.forward(&node).await.0, 200, "the new secret is the secret of the nodes");
    assert_eq!(proven(&node, "/v1/heartbeat", &again["lease_id"]).await.0, 200);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_directory_is_rotated() {
    let place = Place::embedded();
    place.tenure(&ROTATE).refused(1, &["there is no embedded store in"]);
    what_was_made_with_the_old_secret_is_void(&place, &["stop the coordinator first"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_bucket_is_rotated() {
    let server = nats_server::Server::start();
    let alive = ["these nodes are alive", "Stop them first"];
    what_was_made_with_the_old_secret_is_void(&nats(&server), &alive).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_table_is_rotated() {
    let alive = ["these nodes are alive", "Stop them first"];
    what_was_made_with_the_old_secret_is_void(&Table::start().place, &alive).await;
}

/// It knows the old secret alone, so it must do nothing until it is started again.
async fn stays_frozen(node: Node, place: &Place) {
    eventually("it knows why it is frozen", async || {
        let (status, why) = node.text("/readyz").await;
        status == 503 && why.contains("secret was rotated") && why.contains("restart this node")
    })
    .await;
    for _ in 0..8 {
        let body = json!({"key": "k", "owner": "o", "ttl_ms": 1000});
        let (status, refused) = node.post("/v1/acquire", &body).await;
        assert_eq!(status, 503, "{refused}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    drop(node);
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
}

/// A node that was paused, and so counted as dead, while the secret was rotated.
async fn a_paused_node_does_not_go_on(place: &Place) {
    let node = place.serve().await;
    let held = node.acquire("held", "worker", "v").await;
    node.signal(Signal::STOP);
    place.tenure(&ROTATE).json();
    node.signal(Signal::CONT);
    eventually("it promises nothing", async || {
        proven(&node, "/v1/heartbeat", &held["lease_id"]).await.0 != 200
    })
    .await;
    stays_frozen(node, place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_paused_while_the_secret_of_its_bucket_was_rotated_stays_frozen() {
    a_paused_node_does_not_go_on(&Bucket::start().place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_paused_while_the_secret_of_its_table_was_rotated_stays_frozen() {
    a_paused_node_does_not_go_on(&Table::start().place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_frozen_before_stays_so_after_a_rotation() {
    let mut server = nats_server::Server::start();
    let place = nats(&server);
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
    lose(&mut server).await;
    let node = place.start();
    eventually("frozen", async || node.text("/readyz").await.1.contains("another store")).await;
    place.tenure(&ROTATE).json();
    stays_frozen(node, &place).await;
}
