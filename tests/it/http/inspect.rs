//! `GET /v1/leases/{key}`, `GET /v1/leases` and `POST /v1/check`.

use serde_json::{Value, json};

use crate::support::harness::{Connection, Server, eventually, percent};

#[tokio::test]
async fn a_key_never_seen_is_unknown_and_a_free_one_is_known() {
    let server = Server::start();
    server.get("/v1/leases/k").await.problem(404, "unknown-key");
    let grant = server.acquire("k", "w", 60_000).await;
    let lease = server.lease("k").await;
    let fields = [
        "key",
        "state",
        "owner",
        "token",
        "ttl_ms",
        "expires_in_ms",
        "acquired_at",
        "session",
        "value",
        "pool",
        "node",
        "waiters",
        "pinned",
    ];
    for field in fields {
        assert!(lease.get(field).is_some(), "{field} is missing in {lease}");
    }
    assert!(lease.get("lease_id").is_none());
    server.release(&grant).await;
    assert_eq!(server.lease("k").await["state"], "free");
}

#[tokio::test]
async fn a_check_tells_whether_a_token_is_the_holders() {
    let server = Server::start();
    let check = async |token: u64| {
        server.post("/v1/check", &json!({ "key": "k", "token": token })).await.ok()
    };
    assert_eq!(check(0).await["current"], false);
    assert_eq!(check(7).await["current"], false);
    let first = server.acquire("k", "w1", 60_000).await;
    let answer = check(first.token).await;
    assert_eq!(answer["current"], true);
    assert_eq!(answer["lease"]["owner"], "w1");
    assert_eq!(check(first.token + 1).await["current"], false);
    server.release(&first).await;
    assert_eq!(check(first.token).await["current"], false, "nobody holds it");
    let second = server.acquire("k", "w2", 60_000).await;
    assert_eq!(check(first.token).await["current"], false);
    assert_eq!(check(second.token).await["current"], true);
    for token in [json!(-1), json!(1.5), json!("1"), json!(null)] {
        let body = json!({ "key": "k", "token": token });
        server.post("/v1/check", &body).await.malformed();
    }
    server.post("/v1/check", &json!({ "key": "", "token": 1 })).await.bad_field("key");
    for token in [1_u64 << 53, u64::MAX] {
        server.post("/v1/check", &json!({ "key": "k", "token": token })).await.bad_field("token");
    }
}

async fn keys(server: &Server, query: &str) -> Vec<String> {
    let list = server.get(&format!("/v1/leases?{query}")).await.ok();
    let leases = list["leases"].as_array().expect("leases").iter();
    leases.map(|lease| lease["key"].as_str().expect("key").to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_filtered() {
    let server = Server::start();
    server.acquire("a/1", "w1", 60_000).await;
    server.acquire("a/2", "w2", 60_000).await;
    let free = server.acquire("a/3", "w1", 60_000).await;
    server.release(&free).await;
    let offered = server.acquire("b/1", "w1", 60_000).await;
    server.post("/v1/transfer", &offered.proof_and(json!({ "to": "w2" }))).await.ok();
    assert_eq!(keys(&server, "").await, ["a/1", "a/2", "a/3", "b/1"]);
    assert_eq!(keys(&server, "prefix=a%2F").await, ["a/1", "a/2", "a/3"]);
    assert_eq!(keys(&server, "owner=w1").await, ["a/1"]);
    assert_eq!(keys(&server, "state=free").await, ["a/3"]);
    assert_eq!(keys(&server, "state=held").await, ["a/1", "a/2"]);
    assert_eq!(keys(&server, "state=offered").await, ["b/1"]);
    assert_eq!(keys(&server, "state=held&owner=w2&prefix=a").await, ["a/2"]);
    assert_eq!(keys(&server, "key=a%2F1").await, ["a/1"]);
    assert_eq!(keys(&server, "key=a%2F1&state=free").await, [""; 0]);
    assert_eq!(keys(&server, "key=never").await, [""; 0]);
    assert_eq!(keys(&server, "after=a%2F2").await, ["a/3", "b/1"]);
    assert_eq!(keys(&server, "pool=default").await.len(), 4);
    for nothing in ["state=fencing", "state=cooling", "prefix=zzz"] {
        assert_eq!(keys(&server, nothing).await, [""; 0], "{nothing}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_query_is_named() {
    let server = Server::start();
    let get = async |query: &str| server.get(&format!("/v1/leases?{query}")).await;
    get("state=gone").await.bad_field("state");
    get("limit=0").await.bad_field("limit");
    get("limit=1001").await.bad_field("limit");
    get("limit=ten").await.malformed();
    get("limit=-1").await.malformed();
    get("owner=").await.bad_field("owner");
    get("session=x").await.bad_field("session");
    get("key=").await.bad_field("key");
    get("colour=red").await.malformed();
    get("limit=1&limit=2").await.malformed();
    get("key=%FF").await.problem(400, "malformed-request");
}

#[tokio::test]
async fn two_and_a_half_thousand_keys_come_in_pages() {
    let server = Server::start();
    let all: Vec<_> = (0..2500).map(|n| format!("page/{n:04}")).collect();
    let body = json!({ "keys": all, "owner": "w", "ttl_ms": 600_000, "count": 2500 });
    let answer = server.post("/v1/acquire-any", &body).await.ok();
    assert_eq!(answer["grants"].as_array().expect("grants").len(), 2500);
    server.acquire("other", "w", 60_000).await;
    for limit in [1000, 999, 100] {
        let mut seen: Vec<String> = Vec::new();
        let mut after: Option<String> = None;
        let mut connection = Connection::open(server.addr).await;
        loop {
            let cursor =
                after.map_or_else(String::new, |after| format!("&after={}", percent(&after)));
            let path = format!("/v1/leases?prefix=page%2F&state=held&limit={limit}{cursor}");
            let page: Value = connection.call("GET", &path, &[], b"").await.ok();
            let leases = page["leases"].as_array().expect("leases");
            assert!(leases.len() <= limit);
            seen.extend(leases.iter().map(|lease| lease["key"].as_str().expect("key").to_owned()));
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => break,
            }
        }
        assert_eq!(seen, all, "each key once, in byte order, {limit} at a time");
    }
}

/// A page of leases: its keys, and the cursors of the pages beside it.
async fn page(server: &Server, query: &str) -> (Vec<String>, Option<String>, Option<String>) {
    let page = server.get(&format!("/v1/leases?{query}")).await.ok();
    let leases = page["leases"].as_array().expect("leases").iter();
    let keys = leases.map(|lease| lease["key"].as_str().expect("key").to_owned()).collect();
    let cursor = |name: &str| page[name].as_str().map(percent);
    (keys, cursor("next"), cursor("previous"))
}

#[tokio::test]
async fn pages_lead_back_as_they_led_on() {
    let server = Server::configured("[[policy]]\nprefix = \"page/\"\npool = \"paged\"\n");
    let all: Vec<_> = (0..25).map(|n| format!("page/{n:02}")).collect();
    let names: Vec<_> = all.iter().map(String::as_str).chain(["a", "page", "page0", "z"]).collect();
    let body = json!({ "keys": names, "owner": "w", "ttl_ms": 600_000, "count": 29 });
    server.post("/v1/acquire-any", &body).await.ok();
    let free = server.acquire("page/99", "w", 60_000).await;
    server.release(&free).await;
    for filter in ["prefix=page%2F&state=held", "pool=paged&owner=w"] {
        for limit in [1, 7, 24, 25, 100] {
            let filter = format!("{filter}&limit={limit}");
            let (mut on, mut next, mut previous) = page(&server, &filter).await;
            assert_eq!(previous, None, "the first page");
            let mut last = on.clone();
            while let Some(after) = next {
                (last, next, previous) = page(&server, &format!("{filter}&after={after}")).await;
                on.extend(last.clone());
            }
            assert_eq!(on, all, "{filter}");
            let mut back = vec![last];
            while let Some(before) = previous {
                let keys;
                (keys, next, previous) = page(&server, &format!("{filter}&before={before}")).await;
                assert!(keys.len() <= limit);
                assert_eq!(next, keys.last().map(|key| percent(key)), "it leads on again");
                back.push(keys);
            }
            back.reverse();
            assert_eq!(back.concat(), all, "{filter}");
        }
    }
    assert_eq!(page(&server, "before=b").await.0, ["a"]);
    assert_eq!(page(&server, "before=page%2F02&limit=3").await.0, ["page", "page/00", "page/01"]);
    server.get("/v1/leases?before=b&after=a").await.bad_field("before");
}

#[tokio::test]
async fn looking_starts_no_actor() {
    let server = Server::with(&["node.passivate_after=100ms"]);
    let grant = server.acquire("k", "w", 60_000).await;
    server.release(&grant).await;
    eventually("it left memory", async || server.metric("tenure_actors").await == 0.0).await;
    server.lease("k").await;
    server.get("/v1/leases").await.ok();
    server.post("/v1/check", &json!({ "key": "k", "token": 1 })).await.ok();
    server.get("/v1/leases/never").await.problem(404, "unknown-key");
    assert_eq!(server.metric("tenure_actors").await, 0.0);
}
