//! Who has each key of a pool, as routers learn it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tenure::client::{Client, RouteState, Router};

use crate::support::{
    harness::{Server, eventually},
    http,
    pool_worker::Worker,
};

const POLICY: &str = "[[policy]]\nprefix = \"shards/\"\npool = \"shards\"\nbalance = true\n";

fn shards(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("shards/{n:02}")).collect()
}

fn url(server: &Server) -> String {
    format!("http://{}", server.addr)
}

async fn join(server: &Server, owner: &str, address: &str) -> Worker {
    let body = json!({ "owner": owner, "ttl_ms": 10_000, "pool": "shards", "address": address });
    Worker::join_with(&url(server), owner, &body).await
}

async fn router(server: &Server) -> Router {
    let client = Client::new(&url(server)).expect("a client");
    Router::follow(client, "shards").await.expect("the assignment")
}

/// What the router and the coordinator say of each key: owner, token and address.
fn routed(router: &Router) -> BTreeMap<String, (Option<String>, u64, Option<String>)> {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let route =
        |route: &tenure::client::Route| (text(route.owner()), route.token(), text(route.address()));
    router.routes().iter().map(|(key, of)| (key.to_string(), route(of))).collect()
}

async fn stored(
    server: &Server,
    address: impl Fn(&str) -> String,
) -> BTreeMap<String, (Option<String>, u64, Option<String>)> {
    let leases = server.get("/v1/leases?prefix=shards/&limit=1000").await.ok();
    let leases = leases["leases"].as_array().expect("leases").clone();
    let of = |lease: &Value| {
        let owner = lease["owner"].as_str().map(str::to_owned);
        let key = lease["key"].as_str().expect("a key").to_owned();
        let address = owner.as_deref().map(&address);
        (key, (owner, lease["token"].as_u64().expect("a token"), address))
    };
    leases.iter().map(of).collect()
}

#[tokio::test]
async fn a_page_of_an_assignment_has_owner_token_and_address_of_each_key() {
    let server = Server::configured(POLICY);
    let mut a = join(&server, "a", "10.0.0.7:80").await;
    a.work(shards(5));
    eventually("it has all", async || a.held() == 5).await;
    // A lease that no session keeps, a key that nobody has, and one of another pool.
    let other = server.acquire("shards/98", "x", 60_000).await;
    let free = server.acquire("shards/99", "x", 60_000).await;
    server.release(&free).await;
    server.acquire("jobs/1", "x", 60_000).await;

    let mut after = String::new();
    let mut keys = Vec::new();
    for page in 0..4 {
        let path = format!("/v1/pools/shards/assignment?limit=2{after}");
        let answer = server.get(&path).await.ok();
        assert_eq!((&answer["pool"], answer["cursor"].is_string()), (&json!("shards"), true));
        keys.extend(answer["keys"].as_array().expect("keys").clone());
        match answer["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => assert_eq!(page, 3, "{answer}"),
        }
    }
    let held = |key: &Value| (key["state"] == "held").then(|| key["address"].clone());
    let names: Vec<_> = keys.iter().map(|key| key["key"].as_str().expect("a key")).collect();
    assert_eq!(names[..5], shards(5), "{names:?}");
    assert_eq!(names[5..], ["shards/98", "shards/99"]);
    for key in &keys[..5] {
        assert_eq!((held(key), &key["owner"]), (Some(json!("10.0.0.7:80")), &json!("a")), "{key}");
        let lease = server.lease(key["key"].as_str().expect("a key")).await;
        assert_eq!((&key["token"], &key["session"]), (&lease["token"], &lease["session"]));
    }
    let [alone, free] = &keys[5..] else { unreachable!() };
    assert_eq!((held(alone), &alone["token"]), (Some(Value::Null), &json!(other.token)));
    assert_eq!((&free["state"], &free["owner"]), (&json!("free"), &Value::Null));

    let pool = server.get("/v1/pools/shards").await.ok();
    assert_eq!(pool["members"][0]["address"], "10.0.0.7:80");
    let session = pool["members"][0]["session"].as_str().expect("a session").to_owned();
    assert_eq!(server.get(&format!("/v1/sessions/{session}")).await.ok()["address"], "10.0.0.7:80");
}

#[tokio::test]
async fn a_router_follows_grants_hand_overs_and_ends() {
    let server = Server::configured(POLICY);
    let router = router(&server).await;
    assert!(router.routes().is_empty() && router.lookup("shards/00").is_none());
    let address = |owner: &str| format!("{owner}.example:80");
    let mut a = join(&server, "a", &address("a")).await;
    a.work(shards(20));
    eventually("it has all", async || a.held() == 20).await;
    eventually("the router knows it", async || routed(&router) == stored(&server, address).await)
        .await;
    // Half of them move.
    let mut b = join(&server, "b", &address("b")).await;
    b.work(shards(20));
    eventually("it is balanced", async || b.held() == 10).await;
    eventually("the router knows it", async || {
        let routed = routed(&router);
        let of_b = routed.values().filter(|(owner, ..)| owner.as_deref() == Some("b")).count();
        of_b == 10 && routed == stored(&server, address).await
    })
    .await;
    let route = router.lookup(&b.keys()[0]).expect("a route");
    assert_eq!((route.state(), route.address()), (RouteState::Held, Some("b.example:80")));
    a.stop().await;
    drop(b);
    let free = server.acquire("shards/99", "x", 60_000).await;
    let token = |key: &str| router.lookup(key).map(|route| (route.state(), route.token()));
    eventually("it is held", async || token("shards/99") == Some((RouteState::Held, free.token)))
        .await;
    server.release(&free).await;
    eventually("it is free", async || token("shards/99") == Some((RouteState::Free, free.token)))
        .await;
    let forget = json!({ "prefix": "shards/99", "reason": "r" });
    server.post("/v1/admin/forget", &forget).await.ok();
    eventually("it is gone", async || router.lookup("shards/99").is_none()).await;
}

#[tokio::test]
async fn a_stream_of_routes_begins_with_the_members_and_refuses_what_is_wrong() {
    let server = Server::configured(POLICY);
    let _a = join(&server, "a", "10.0.0.7:80").await;
    eventually("it is a member", async || {
        let pool = server.get("/v1/pools/shards").await.ok();
        pool["members"].as_array().is_some_and(|members| members.len() == 1)
    })
    .await;
    let path = format!("{}/v1/pools/shards/assignment/changes", url(&server));
    let mut answer = http::client().get(path).send().await.expect("an answer");
    let mut text = String::new();
    while !text.contains("\n\nevent: member") && !text.contains("\"gone\":false}\n\n") {
        let chunk = answer.chunk().await.expect("a chunk").expect("more");
        text.push_str(std::str::from_utf8(&chunk).expect("text"));
    }
    assert!(text.contains(r#""owner":"a","address":"10.0.0.7:80","gone":false"#), "{text}");

    for (path, code, field) in [
        ("/v1/pools/shards/assignment?limit=0", 400, "limit"),
        ("/v1/pools/shards/assignment?limit=10001", 400, "limit"),
        ("/v1/pools/shards/assignment/changes?after=x", 400, "after"),
        ("/v1/pools/other/assignment", 404, "pool"),
        ("/v1/pools/other/assignment/changes", 404, "pool"),
    ] {
        let refused = server.get(path).await;
        assert_eq!((refused.status, &refused.json()["field"]), (code, &json!(field)), "{path}");
    }
    for address in [String::new(), "a".repeat(257), "a\nb".to_owned()] {
        let body = json!({ "owner": "w", "ttl_ms": 9_000, "pool": "shards", "address": address });
        let refused = server.post("/v1/sessions", &body).await.problem(400, "invalid-field");
        assert_eq!(refused["field"], "address");
    }
    let client = Client::new(&url(&server)).expect("a client");
    let refused = Router::follow(client, "other").await.expect_err("no such pool");
    assert!(refused.to_string().contains("other"), "{refused}");
}
