//! `GET /v1/top`: which keys, owners and pools changed most.

use serde_json::{Value, json};

use crate::support::harness::{Server, eventually};

const POOLS: &str = "[[policy]]\nprefix = \"jobs/\"\npool = \"jobs\"\n";

async fn cycle(server: &Server, key: &str, owner: &str, times: usize) {
    for _ in 0..times {
        let grant = server.acquire(key, owner, 60_000).await;
        server.release(&grant).await;
    }
}

/// The names with the bounds of their counts.
fn told(top: &Value) -> Vec<(String, u64, u64)> {
    let number = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, number(row, "at_least"), number(row, "at_most"))
    };
    top["rows"].as_array().expect("rows").iter().map(row).collect()
}

async fn ask(server: &Server, query: &str) -> Value {
    server.get(&format!("/v1/top?{query}")).await.ok()
}

async fn some() -> Server {
    let server = Server::configured(POOLS);
    cycle(&server, "jobs/1", "a", 3).await;
    cycle(&server, "jobs/2", "b", 2).await;
    cycle(&server, "other", "a", 1).await;
    eventually("all is heard", async || {
        told(&ask(&server, "by=pools").await).iter().map(|row| row.1).sum::<u64>() == 12
    })
    .await;
    server
}

#[tokio::test]
async fn what_changed_most_comes_first_by_key_owner_and_pool() {
    let server = some().await;
    let row = |name: &str, count: u64| (name.to_owned(), count, count);
    for window in ["1m", "10m", "60m"] {
        let top = ask(&server, &format!("window={window}")).await;
        assert_eq!(told(&top), [row("jobs/1", 6), row("jobs/2", 4), row("other", 2)], "{top}");
        assert_eq!(top["others_at_most"], 0);
        assert!(top["covers_ms"].as_u64() <= top["window_ms"].as_u64(), "the node is young: {top}");
    }
    let top = ask(&server, "").await;
    assert_eq!(top["rows"][0]["changes"], json!({ "granted": 3, "released": 3 }));
    assert_eq!((&top["rows"][0]["pool"], &top["by"]), (&json!("jobs"), &json!("keys")));
    assert_eq!(told(&ask(&server, "by=owners").await), [row("a", 8), row("b", 4)]);
    assert_eq!(told(&ask(&server, "by=pools").await), [row("jobs", 10), row("default", 2)]);
}

#[tokio::test]
async fn a_cause_and_a_prefix_count_alone_and_the_cut_is_told_as_a_bound() {
    let server = some().await;
    server.acquire("brief", "c", 200).await;
    eventually("it expired", async || {
        told(&ask(&server, "cause=expired").await) == [("brief".to_owned(), 1, 1)]
    })
    .await;
    let released = ask(&server, "cause=released&by=owners").await;
    assert_eq!(told(&released), [("a".to_owned(), 4, 4), ("b".to_owned(), 2, 2)]);
    assert_eq!(released["cause"], "released");
    let top = ask(&server, "prefix=jobs%2F&limit=1").await;
    assert_eq!(told(&top), [("jobs/1".to_owned(), 6, 6)]);
    assert_eq!(top["others_at_most"], 4, "jobs/2");
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_named() {
    let server = Server::start();
    for (query, field) in [
        ("window=5m", "window"),
        ("by=nodes", "by"),
        ("cause=frozen", "cause"),
        ("cause=adopted", "cause"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("by=owners&prefix=a", "prefix"),
    ] {
        server.get(&format!("/v1/top?{query}")).await.bad_field(field);
    }
    server.get("/v1/top?limit=many").await.malformed();
    server.get("/v1/top?colour=red").await.malformed();
}

#[tokio::test]
async fn ten_thousand_other_keys_do_not_hide_the_one_that_changes_all_the_time() {
    let server = Server::start();
    for round in 0..20 {
        cycle(&server, "restless", "w", 5).await;
        let keys: Vec<_> = (0..500).map(|n| format!("once/{round}/{n}")).collect();
        let body = json!({ "keys": keys, "owner": "w", "ttl_ms": 600_000, "count": 500 });
        server.post("/v1/acquire-any", &body).await.ok();
    }
    let mut top = Value::Null;
    eventually("all is heard", async || {
        top = ask(&server, "by=pools").await;
        told(&top)[0].1 == 10_200
    })
    .await;
    let top = ask(&server, "limit=1").await;
    let (name, at_least, at_most) = told(&top).remove(0);
    assert_eq!(name, "restless", "{top}");
    assert!(at_least <= 200 && 200 <= at_most, "{top}");
    // The error is a 128th of all changes at most, and what was put together adds the errors of its parts.
    assert!(top["others_at_most"].as_u64().expect("a number") <= 2 * 10_200 / 128, "{top}");
}
