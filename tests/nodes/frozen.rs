//! R7: a store that went backwards.

use serde_json::json;

use crate::{
    clock::{ms, within},
    pair::{DEATH_MS, Pair, Store, acquire},
};

/// Whether both nodes are ready, and say why they are not.
async fn reasons(pair: &Pair) -> String {
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
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
    let mut held = json!(null);
    let taken = within(ms(120_000), async || {
        let wait = json!({ "key": "k", "owner": "w2", "ttl_ms": 2_000, "wait_ms": 4_000 });
        let (status, answer) = pair.a.post("/v1/acquire", &wait).await;
        held = answer;
        status == 200
    });
    assert!(taken.await, "{held}");
    assert!(held["token"].as_u64() > Some(before.token));
}
