//! Stores that several nodes share: backup while they serve, the loss of everything, restore.

use serde_json::json;

use crate::backup::{
    node::{Node, Place, eventually},
    scenario,
};

use crate::support::{
    dynamo_endpoint, http, nats_server,
    proxy::{Fate, HttpProxy},
};

/// Nodes that answer within a short time after the one before them was killed.
const TTL: &str = "node.ttl=1s";

pub fn nats(server: &nats_server::Server) -> Place {
    let url = format!("store.nats.url={}", server.url());
    Place::new(&["store.kind=nats", &url, "store.nats.replicas=1", TTL])
}

/// A bucket on a server of its own.
pub struct Bucket {
    pub place: Place,
    _server: nats_server::Server,
}

impl Bucket {
    pub fn start() -> Self {
        let server = nats_server::Server::start();
        Self { place: nats(&server), _server: server }
    }
}

/// The store is lost, after more was granted than the backup knows; `wipe` loses it.
async fn lose_and_restore(place: &Place, wipe: impl AsyncFnOnce()) {
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    let mut before = scenario::fill(&node).await;
    let said = place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    assert_eq!(said["keys"], 603, "read while it serves");
    scenario::go_on(&node, &mut before).await;
    place
        .tenure(&["restore", "--file", &file, "--raise-epoch"])
        .refused(1, &["holds keys", "or name another"]);
    place
        .tenure(&["restore", "--raise-epoch"])
        .refused(1, &["these nodes are alive", &node.url, "Stop them first"]);
    drop(node);

    wipe().await;
    scenario::refused_without_the_epoch(place, &file);
    scenario::restore(place, &file, 1);
    let node = place.serve().await;
    scenario::check(&node, &before, 1).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_lost_is_brought_back() {
    let mut server = nats_server::Server::start();
    let place = nats(&server);
    lose_and_restore(&place, async || {
        server.kill();
        server.wipe();
        server.run();
    })
    .await;
}

/// A node that froze when the store was lost stays so while a restore is under way or was cut off, and goes on when all
/// is there.
async fn a_frozen_node_waits_for_the_end_of_a_restore(place: &Place, wipe: impl AsyncFnOnce()) {
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    let mut tokens = Vec::new();
    for key in ["a", "b", "c"] {
        tokens.push(node.acquire_and_release(key).await);
    }
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    wipe().await;
    eventually("not ready", async || node.text("/readyz").await.0 == 503).await;
    let mut restore = place.command(&["restore", "--file", &file, "--raise-epoch"]);
    let killed = restore.env("TENURE_TEST_CUT_RESTORE", "2").output().expect("it runs");
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let body = json!({"key": "c", "owner": "o", "ttl_ms": 1000});
    for _ in 0..20 {
        let (status, refused) = node.post("/v1/acquire", &body).await;
        assert_eq!(status, 503, "{refused}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let said = place.tenure(&["restore", "--file", &file, "--raise-epoch", "--output", "json"]);
    assert_eq!(said.json()["keys"], 3);
    eventually("thawed", async || node.text("/readyz").await.0 == 200).await;
    for (key, token) in ["a", "b", "c"].into_iter().zip(tokens) {
        assert_ne!(node.get(&format!("/v1/leases/{key}")).await["token"], json!(null));
        assert!(node.acquire_and_release(key).await > token + (1 << 42), "{key}");
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_bucket_was_lost_waits_for_the_end_of_a_restore() {
    let mut server = nats_server::Server::start();
    let place = nats(&server);
    a_frozen_node_waits_for_the_end_of_a_restore(&place, async || lose(&mut server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_table_was_lost_waits_for_the_end_of_a_restore() {
    let table = Table::start();
    a_frozen_node_waits_for_the_end_of_a_restore(&table.place, async || table.delete().await).await;
}

/// A restore that is killed in its midst leaves a store that nobody opens, until it is restored again.
async fn a_cut_off_restore_is_done_again(place: &Place, wipe: impl AsyncFnOnce()) {
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    let before = scenario::fill(&node).await;
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    node.stop().await;
    wipe().await;
    for keys in ["300", "450", "603"] {
        let mut restore = place.command(&["restore", "--file", &file, "--raise-epoch"]);
        let killed = restore.env("TENURE_TEST_CUT_RESTORE", keys).output().expect("it runs");
        assert_eq!(killed.status.code(), None, "{killed:?}");
        let words =
            ["a restore into", "cut off", "tenure restore --file FILE --raise-epoch` again"];
        place.tenure(&["serve", "--listen", "127.0.0.1:0"]).refused(1, &words);
    }
    let words = ["a restore into", "cut off"];
    let part = place.file("of-a-part.jsonl");
    place.tenure(&["backup", "--file", &part]).refused(1, &words);
    place.tenure(&["restore", "--raise-epoch"]).refused(1, &words);
    // Each of them raised the epoch.
    scenario::restore(place, &file, 4);
    let node = place.serve().await;
    scenario::check(&node, &before, 4).await;
    node.stop().await;
    place
        .tenure(&["restore", "--file", &file, "--raise-epoch"])
        .refused(1, &["holds keys", "or name another"]);
}

/// What a restore of one backup left does not get mixed with another.
async fn a_cut_off_restore_gives_way_to_that_of_another_backup(
    place: &Place,
    wipe: impl AsyncFnOnce(),
) {
    let [first, second] = ["first.jsonl", "second.jsonl"].map(|name| place.file(name));
    let node = place.serve().await;
    let token = node.acquire_and_release("in/both").await;
    place.tenure(&["backup", "--file", &second, "--output", "json"]).json();
    for n in 0..9 {
        node.acquire_and_release(&format!("in/first/{n}")).await;
    }
    place.tenure(&["backup", "--file", &first, "--output", "json"]).json();
    node.stop().await;
    wipe().await;
    let mut restore = place.command(&["restore", "--file", &first, "--raise-epoch"]);
    let killed = restore.env("TENURE_TEST_CUT_RESTORE", "9").output().expect("it runs");
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let said = place.tenure(&["restore", "--file", &second, "--raise-epoch", "--output", "json"]);
    assert_eq!(said.json()["keys"], 1);
    let node = place.serve().await;
    let page = node.get("/v1/leases?prefix=in/").await;
    assert_eq!(page["leases"].as_array().map(Vec::len), Some(1), "{page}");
    assert!(node.acquire_and_release("in/both").await > token);
    node.stop().await;
}

pub async fn lose(server: &mut nats_server::Server) {
    server.kill();
    server.wipe();
    server.run();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_into_a_bucket_that_was_cut_off_is_done_again() {
    let mut server = nats_server::Server::start();
    let place = nats(&server);
    a_cut_off_restore_is_done_again(&place, async || lose(&mut server).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_into_a_table_that_was_cut_off_is_done_again() {
    let table = Table::start();
    a_cut_off_restore_is_done_again(&table.place, async || table.delete().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_another_backup_is_removed_from_a_bucket() {
    let mut server = nats_server::Server::start();
    let place = nats(&server);
    let wipe = async || lose(&mut server).await;
    a_cut_off_restore_gives_way_to_that_of_another_backup(&place, wipe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_another_backup_is_removed_from_a_table() {
    let table = Table::start();
    let wipe = async || table.delete().await;
    a_cut_off_restore_gives_way_to_that_of_another_backup(&table.place, wipe).await;
}

/// A node that died holds nobody up for longer than it takes to be sure, and what it left is its owner's to take.
async fn raise_after_a_crash(place: &Place) {
    let node = place.serve().await;
    let held = node.acquire("held", "worker", "v").await;
    let token = node.acquire_and_release("k").await;
    drop(node);
    let said = place.tenure(&["restore", "--raise-epoch", "--output", "json"]);
    assert!(said.err.contains("whether these nodes are alive: http://127.0.0.1:"), "{said:?}");
    assert_eq!(said.json()["epoch"], 1);
    let node: Node = place.serve().await;
    assert_eq!(node.get("/v1/info").await["epoch"], 1);
    let proof = json!({"key": "held", "lease_id": held["lease_id"]});
    node.refused("/v1/heartbeat", proof, scenario::LOST).await;
    let again = json!({"key": "held", "owner": "worker", "ttl_ms": 60_000, "reclaim": true});
    let again = node.call("/v1/acquire", again).await;
    assert!(
        again["token"].as_u64() > held["token"].as_u64(),
        "{again}: its owner takes it at once"
    );
    assert!(node.acquire_and_release("k").await > token + (1 << 42));
    node.stop().await;
    // One that left by itself need not be waited for.
    let said = place.tenure(&["restore", "--raise-epoch", "--output", "json"]);
    assert_eq!((said.err.as_str(), &said.json()["epoch"]), ("", &json!(2)));
}

/// The answer to the write is lost, and the store cannot be read for a while.
#[tokio::test(flavor = "multi_thread")]
async fn a_raise_whose_answer_is_lost_is_told_once_the_store_can_be_read() {
    let endpoint = dynamo_endpoint::Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let place = table_at(&proxy.url());
    place.serve().await.stop().await;
    let mut refused = None;
    proxy.rule(move |operation, body| {
        if operation == "UpdateItem" && body.contains(":identity") && refused.is_none() {
            refused = Some(0);
            return Fate::LoseReply;
        }
        match &mut refused {
            Some(times) if *times < 30 => {
                *times += 1;
                Fate::Answer(500, "InternalServerError")
            }
            _ => Fate::Pass,
        }
    });
    let said = place.tenure(&["restore", "--raise-epoch", "--output", "json"]);
    assert_eq!(said.json()["epoch"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_epoch_of_a_bucket_is_raised_when_no_node_is_alive() {
    raise_after_a_crash(&Bucket::start().place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_from_one_kind_of_store_to_another() {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    let before = scenario::fill(&node).await;
    node.stop().await;
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    let server = nats_server::Server::start();
    let place = nats(&server);
    scenario::restore(&place, &file, 1);
    let node = place.serve().await;
    scenario::check(&node, &before, 1).await;
}

/// A store that went backwards is noticed by whoever saw it before, and grants nothing.
async fn freezes_until_the_epoch_is_raised(place: &Place, wipe: impl AsyncFnOnce()) {
    let node = place.serve().await;
    node.acquire_and_release("k").await;
    node.stop().await;
    // An epoch that only the witness knows after the loss.
    let raised = place.tenure(&["restore", "--raise-epoch", "--epoch", "4", "--output", "json"]);
    assert_eq!(raised.json()["epoch"], 4);
    let node = place.serve().await;
    let token = node.acquire_and_release("k").await;
    node.stop().await;
    wipe().await;
    let node = place.start();
    eventually("frozen", async || {
        let (status, why) = node.text("/readyz").await;
        status == 503 && why.contains("another store")
    })
    .await;
    let kind = place.settings[0].trim_start_matches("store.kind=");
    let gauge = format!("tenure_store_frozen{{store=\"{kind}\"}} 1");
    assert!(node.text("/metrics").await.1.contains(&gauge));
    let body = json!({"key": "k", "owner": "o", "ttl_ms": 1000});
    let (status, refused) = node.post("/v1/acquire", &body).await;
    assert_eq!(status, 503, "{refused}");
    drop(node);
    let again = place.start();
    eventually("frozen still", async || again.text("/readyz").await.0 == 503).await;
    place.tenure(&["restore", "--raise-epoch", "--epoch", "4"]).refused(1, &["it is 4 now"]);
    let raised = place.tenure(&["restore", "--raise-epoch", "--output", "json"]).json();
    assert_eq!(raised["epoch"], 5);
    eventually("thawed", async || again.text("/readyz").await.0 == 200).await;
    assert!(again.acquire_and_release("k").await > token, "nobody had to start it again");
    again.stop().await;
    let node = place.serve().await;
    assert_eq!(node.get("/v1/info").await["epoch"], 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_was_wiped_freezes_until_the_epoch_is_raised() {
    let mut server = nats_server::Server::start();
    let place = nats(&server);
    freezes_until_the_epoch_is_raised(&place, async || {
        server.kill();
        server.wipe();
        server.run();
    })
    .await;
}

/// A place whose store is a table of the service at this address.
pub fn table_at(url: &str) -> Place {
    let url = format!("store.dynamodb.endpoint={url}");
    Place::new(&["store.kind=dynamodb", &url, "store.dynamodb.create_table=true", TTL])
}

/// A service whose tables are lost with it, at an address that stays the same.
pub struct Table {
    endpoint: dynamo_endpoint::Endpoint,
    pub place: Place,
}

impl Table {
    pub fn start() -> Self {
        let endpoint = dynamo_endpoint::Endpoint::start();
        Self { place: table_at(&endpoint.url()), endpoint }
    }

    /// Deletes the table, as an operator's slip does.
    async fn delete(&self) {
        let request = http::client()
            .post(self.endpoint.url())
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-target", "DynamoDB_20120810.DeleteTable")
            .header("x-amz-date", "20260101T000000Z")
            .header(
                "authorization",
                "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, \
                 SignedHeaders=host, Signature=00",
            )
            .body(json!({"TableName": "tenure"}).to_string());
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        assert!(status.is_success(), "{status}: {:?}", answer.text().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_lost_is_brought_back() {
    let table = Table::start();
    lose_and_restore(&table.place, async || table.delete().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_epoch_of_a_table_is_raised_when_no_node_is_alive() {
    raise_after_a_crash(&Table::start().place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_deleted_freezes_until_the_epoch_is_raised() {
    let table = Table::start();
    freezes_until_the_epoch_is_raised(&table.place, async || table.delete().await).await;
}
