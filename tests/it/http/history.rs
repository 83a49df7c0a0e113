//! `GET /v1/history`: what became of one lease. And lists of leases in several states.

use serde_json::{Value, json};

use crate::support::harness::{Server, eventually, kinds, percent};

async fn history(server: &Server, query: &str) -> Value {
    server.get(&format!("/v1/history?{query}")).await.ok()
}

fn column<'a>(tenures: &'a Value, name: &str) -> Vec<&'a Value> {
    tenures["tenures"].as_array().expect("tenures").iter().map(|one| &one[name]).collect()
}

#[tokio::test]
async fn a_lease_has_its_owners_tokens_and_reasons_also_after_a_restart() {
    let server = Server::start();
    let a = server.acquire("k", "a", 60_000).await;
    server.release(&a).await;
    let b = server.acquire("k", "b", 60_000).await;
    let revoke = json!({ "key": "k", "reason": "move", "immediately": true });
    server.post("/v1/admin/revoke", &revoke).await.ok();
    let c = server.acquire("k", "c", 60_000).await;
    // Others change in between, by more than one part of the history.
    let keys: Vec<_> = (0..2_000).map(|n| format!("other/{n}")).collect();
    let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 2_000 });
    server.post("/v1/acquire-any", &body).await.ok();
    let check = async |server: &Server| {
        let told = history(server, "key=k").await;
        let expected = json!(["c", "b", "a"]);
        assert_eq!(json!(column(&told, "owner")), expected, "{told}");
        assert_eq!(json!(column(&told, "token")), json!([c.token, b.token, a.token]));
        assert_eq!(json!(column(&told, "end")), json!([null, "revoked", "released"]));
        assert_eq!(json!(column(&told, "reason")), json!([null, "move", null]));
        assert!(column(&told, "held_ms").iter().all(|held| held.is_u64()), "{told}");
        let mut events = told["events"].as_array().expect("events").clone();
        events.reverse();
        let all = ["granted", "released", "granted", "revoked", "granted"];
        assert_eq!(kinds(&events), all);
        assert_eq!((&told["complete"], &told["lease"]["owner"]), (&json!(true), &json!("c")));
    };
    check(&server).await;
    let server = server.kill().restart();
    check(&server).await;
}

#[tokio::test]
async fn a_limit_cuts_the_oldest_and_says_that_there_is_more() {
    let server = Server::start();
    for _ in 0..5 {
        let grant = server.acquire("a/ü?&", "w", 60_000).await;
        server.release(&grant).await;
    }
    let key = percent("a/ü?&");
    let told = history(&server, &format!("key={key}&limit=3")).await;
    let events = told["events"].as_array().expect("events");
    assert_eq!(events.iter().map(|event| &event["data"]["seq"]).collect::<Vec<_>>(), [10, 9, 8]);
    assert_eq!(told["complete"], false);
    assert_eq!(column(&told, "end").len(), 2);
    assert_eq!(column(&told, "began")[1], &Value::Null, "its grant was cut off");
}

#[tokio::test]
async fn what_the_store_no_longer_has_is_not_made_up() {
    let server =
        Server::with(&["store.embedded.segment_size=64KiB", "store.embedded.min_log_size=64KiB"]);
    let old = server.acquire("old", "w", 600_000).await;
    let cursor = server.cursor_of_the_beginning().await;
    server.until_compacted_away(&cursor).await;
    let told = history(&server, "key=old").await;
    assert_eq!((&told["complete"], &told["events"]), (&json!(false), &json!([])), "{told}");
    assert_eq!(told["lease"]["token"], old.token);
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_named() {
    let server = Server::start();
    server.get("/v1/history?key=never").await.problem(404, "unknown-key");
    server.get("/v1/history?key=").await.bad_field("key");
    server.get("/v1/history?key=k&limit=0").await.bad_field("limit");
    server.get("/v1/history?key=k&limit=1001").await.bad_field("limit");
    server.get("/v1/history").await.malformed();
    server.get("/v1/history?key=k&since=1").await.malformed();
}

#[tokio::test]
async fn leases_are_listed_in_several_states_and_free_ones_only_when_asked_for() {
    let server = Server::start();
    server.acquire("held", "w", 60_000).await;
    let free = server.acquire("free", "w", 60_000).await;
    server.release(&free).await;
    let offered = server.acquire("offered", "w", 60_000).await;
    server.post("/v1/transfer", &offered.proof_and(json!({ "to": "v" }))).await.ok();
    let keys = async |states: &str| -> Vec<String> {
        let list = server.get(&format!("/v1/leases?state={states}")).await.ok();
        let leases = list["leases"].as_array().expect("leases").iter();
        leases.map(|lease| lease["key"].as_str().expect("a key").to_owned()).collect()
    };
    eventually("all but the free one", async || {
        keys("held,offered,fencing,cooling").await == ["held", "offered"]
    })
    .await;
    assert_eq!(keys("free,held").await, ["free", "held"]);
    for states in ["held,", ",", "held,gone", "held%20,free"] {
        server.get(&format!("/v1/leases?state={states}")).await.bad_field("state");
    }
}
