//! R7: a store that went backwards.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use serde_json::json;

use crate::nodes::pair::{DEATH_MS, Pair, Store, acquire};

use crate::support::clock::{ms, within};
use crate::support::http;

/// Whether both nodes are ready, and say why they are not.
async fn reasons(pair: &Pair) -> String {
    let http = http::builder().build().expect("a client");
    let answer = http.get(format!("{}/readyz", pair.b.url)).send().await.expect("an answer");
    let ready = answer.status().is_success();
    if ready { String::new() } else { answer.text().await.unwrap_or_default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_was_deleted_freezes_grants_until_the_epoch_is_raised() {
    let mut pair = Pair::nats().await;
    let Store::Nats(server) = &pair.store else { unreachable!() };
    let backup = "backup.jsonl";
    let before = acquire(&pair.a, "k", "w1", 2_000).await;
    let backed_up = pair.tenure(&["backup", "--file", backup]);
    assert!(backed_up.status.success(), "{backed_up:?}");
    let later = acquire(&pair.a, "later", "w1", 2_000).await;

    let client = async_nats::connect(server.url()).await.expect("a connection");
    let jetstream = async_nats::jetstream::new(client);
    jetstream.delete_stream("KV_tenure").await.expect("deleted");
    let frozen = within(ms(DEATH_MS), async || reasons(&pair).await.contains("frozen"));
    assert!(frozen.await, "{}", reasons(&pair).await);
    let wanted = json!({ "key": "other", "owner": "w", "ttl_ms": 2_000 });
    let mut problem = json!(null);
    let told = within(ms(DEATH_MS), async || {
        let (status, answer) = pair.b.post("/v1/acquire", &wanted).await;
        assert_eq!(status, 503, "{answer}");
        problem = answer;
        problem["code"] == "store-frozen"
    });
    assert!(told.await, "{problem}");
    assert!(pair.b.metric("tenure_store_frozen").await == 1.0);
    let told = pair.b.get("/v1/status").await;
    let first = &told["attention"][0];
    assert_eq!((&first["kind"], &told["severity"]), (&json!("store-frozen"), &json!("critical")));
    assert_eq!(
        (&told["store"]["health"], &told["this_node"]["ready"]),
        (&json!("frozen"), &json!(false))
    );

    // What a restore fills must not be used before it is full.
    pair.a.stop().await;
    pair.b.stop().await;
    let restored = pair.tenure(&["restore", "--file", backup, "--raise-epoch"]);
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    pair.a.start().await;
    pair.b.start().await;
    let thawed = within(ms(DEATH_MS), async || reasons(&pair).await.is_empty());
    assert!(thawed.await, "{}", reasons(&pair).await);
    assert!(pair.b.metric("tenure_store_frozen").await == 0.0);
    assert_eq!(pair.b.get("/v1/info").await["epoch"], 1);
    let next = acquire(&pair.b, "later", "w2", 2_000).await;
    assert!(next.token > later.token && next.token >= 1 << 43, "{next:?}");
    // What was restored names a node that no record tells of: until the longest node ttl is over, its promises
    // count. `core::nodes::death` waits for that end in virtual time.
    let wait = json!({ "key": "k", "owner": "w2", "ttl_ms": 2_000, "wait_ms": 4_000 });
    let (status, answer) = pair.a.post("/v1/acquire", &wait).await;
    assert_eq!((status, answer["code"].as_str()), (409, Some("held")), "{answer}");
    assert!(answer["retry_after_ms"].as_u64() > Some(50_000), "{answer}");
    assert_eq!(pair.a.get("/v1/leases/k").await["token"], before.token);
}

/// All that a stream of events said so far.
fn listen(url: &str) -> Arc<Mutex<String>> {
    let (heard, url) = (Arc::new(Mutex::new(String::new())), format!("{url}/v1/events?after=0"));
    let to = heard.clone();
    tokio::spawn(async move {
        let mut stream = http::client().get(url).send().await.expect("a stream").bytes_stream();
        while let Some(Ok(chunk)) = stream.next().await {
            to.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&chunk));
        }
    });
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_follows_a_store_that_went_backwards() {
    let mut pair = Pair::nats().await;
    let heard = listen(&pair.a.url);
    acquire(&pair.a, "kept", "w1", 60_000).await;
    pair.store.copy();
    let ready = within(ms(DEATH_MS), async || reasons(&pair).await.is_empty());
    assert!(ready.await, "{}", reasons(&pair).await);
    // A node that was quick to say so may not have noticed yet that the server was gone.
    let probe = json!({
        "keys": ["probe"], "count": 1, "owner": "w1", "ttl_ms": 60_000, "request_id": "probe",
    });
    let granted = async || pair.a.post("/v1/acquire-any", &probe).await.0 == 200;
    assert!(within(ms(DEATH_MS), granted).await, "nothing is granted");
    // More changes than the nodes make by themselves until the store is used again.
    for n in 0..3 {
        let keys: Vec<String> = (0..100).map(|key| format!("lost/{n}/{key}")).collect();
        let body = json!({ "keys": keys, "count": 100, "owner": "w1", "ttl_ms": 60_000 });
        let (status, answer) = pair.a.post("/v1/acquire-any", &body).await;
        assert_eq!(status, 200, "{answer}");
    }
    // Who has not seen what is lost cannot tell that the store went backwards.
    let seen = within(ms(DEATH_MS), async || {
        let page = "/v1/events?prefix=lost/2/&after=0&format=json&wait_ms=0";
        pair.b.get(page).await["events"].as_array().is_some_and(|events| events.len() == 100)
    });
    assert!(seen.await, "the other node does not hear of what was granted");
    let before = pair.b.get("/v1/events?after=0&format=json&wait_ms=0").await;
    let cursor = before["next"].as_str().expect("a cursor").to_owned();

    pair.store.put_back();
    for node in [&pair.a, &pair.b] {
        let frozen = within(ms(DEATH_MS), async || node.metric("tenure_store_frozen").await == 1.0);
        assert!(frozen.await, "{} does not freeze", node.url);
    }
    let raised = pair.tenure(&["restore", "--raise-epoch"]);
    assert!(raised.status.success(), "{}", String::from_utf8_lossy(&raised.stderr));
    for node in [&pair.a, &pair.b] {
        let thawed = within(ms(DEATH_MS), async || node.metric("tenure_store_frozen").await == 0.0);
        assert!(thawed.await, "{} does not thaw", node.url);
    }
    let ready = within(ms(DEATH_MS), async || reasons(&pair).await.is_empty());
    assert!(ready.await, "{}", reasons(&pair).await);
    let resumed = format!("/v1/events?format=json&wait_ms=0&after={cursor}");
    let resumed = pair.b.get(&resumed).await;
    assert_eq!(resumed["reset"], true, "{resumed}");
    let next = resumed["next"].as_str().expect("a cursor");
    assert!(next.split('-').next() != cursor.split('-').next(), "{next} after {cursor}");

    acquire(&pair.b, "after", "w2", 60_000).await;
    let told = within(ms(DEATH_MS), async || {
        let heard = heard.lock().expect("not poisoned");
        heard.contains("event: reset") && heard.contains(r#""key":"after""#)
    });
    assert!(told.await, "the stream says nothing of what came after");
}
