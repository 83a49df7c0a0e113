//! Ownership changes by a stream.

use serde_json::{Value, json};

use crate::{
    access::cast::{Guarded, all_of, principal},
    support::harness::{Server, Talk, kinds},
};

async fn watch(talk: &mut Talk, params: Value) -> Value {
    let id = talk.begin_with("watch", &params, &Value::Null).await;
    talk.answer(id).await
}

async fn events(talk: &mut Talk, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(talk.pushed("event").await);
    }
    events
}

#[tokio::test]
async fn a_watch_sends_what_the_event_stream_sends() {
    let server = Server::start();
    let mut talk = Talk::open(server.addr).await;
    server.acquire("before", "w", 60_000).await;
    let began = watch(&mut talk, json!({ "prefix": "in/" })).await;
    assert_eq!((&began["status"], &began["body"]["events"]), (&json!(200), &json!([])));
    server.acquire("out/k", "w", 60_000).await;
    let grant = server.acquire("in/k", "w", 60_000).await;
    server.release(&grant).await;
    let told = events(&mut talk, 2).await;
    assert_eq!(kinds(&told), ["granted", "released"]);
    let next = began["body"]["next"].as_str().expect("a cursor");
    let page = server.get(&format!("/v1/events?format=json&prefix=in%2F&after={next}")).await.ok();
    assert_eq!(page["events"], json!(told));
    // Another watch replaces it, and in the end there is none.
    assert_eq!(watch(&mut talk, json!({ "owner": "w2", "types": "granted" })).await["status"], 200);
    server.acquire("in/k", "w", 60_000).await;
    server.acquire("in/k2", "w2", 60_000).await;
    assert_eq!(events(&mut talk, 1).await[0]["subject"], "in/k2");
    talk.ok("unwatch", &Value::Null).await;
    server.acquire("in/k3", "w2", 60_000).await;
    talk.ok("info", &Value::Null).await;
    let tail = watch(&mut talk, json!({ "prefix": "in/k4" })).await;
    assert_eq!(tail["status"], 200);
    server.acquire("in/k4", "w2", 60_000).await;
    assert_eq!(events(&mut talk, 1).await[0]["subject"], "in/k4", "nothing was sent in between");
}

#[tokio::test]
async fn what_belongs_to_a_page_is_refused_and_a_page_is_to_be_had() {
    let server = Server::start();
    server.acquire("k", "w", 60_000).await;
    let mut talk = Talk::open(server.addr).await;
    for params in [json!({ "after": "0" }), json!({ "format": "json" }), json!({ "wait_ms": 5 })] {
        let refused = watch(&mut talk, params.clone()).await;
        assert_eq!(refused["body"]["code"], "invalid-field", "{params}: {refused}");
    }
    let refused = watch(&mut talk, json!({ "types": "no-such" })).await;
    assert_eq!(refused["body"]["field"], "types", "{refused}");
    let id = talk.begin_with("events", &json!({ "after": "0" }), &Value::Null).await;
    assert_eq!(talk.answer(id).await["body"]["events"].as_array().map(Vec::len), Some(1));
    let id = talk.begin_with("events", &json!({ "wait_ms": 30_000 }), &Value::Null).await;
    server.acquire("k2", "w", 60_000).await;
    assert_eq!(talk.answer(id).await["status"], 200);
}

#[tokio::test]
async fn a_watch_shows_the_keys_that_the_caller_may_read() {
    let worker = r#"{ verb = "hold", prefix = "" }, { verb = "read", prefix = "in/" }"#;
    let blind = r#"{ verb = "hold", prefix = "" }"#;
    let cast =
        [principal("worker", worker), principal("blind", blind), principal("all", &all_of(""))];
    let guarded = Guarded::start(&cast, &[]);
    let open = async |token: &str| {
        let shown = format!("Bearer {token}");
        let opened = Talk::open_with(guarded.server.addr, &[("Authorization", &shown)]).await;
        opened.unwrap_or_else(|reply| panic!("{}", reply.text()))
    };
    let refused = watch(&mut open("blind").await, Value::Null).await;
    assert_eq!(refused["body"]["code"], "forbidden", "{refused}");
    let mut talk = open("worker").await;
    assert_eq!(watch(&mut talk, Value::Null).await["status"], 200);
    for key in ["out/k", "in/k"] {
        let body = json!({ "key": key, "owner": "w", "ttl_ms": 60_000 });
        guarded.post("all", "/v1/acquire", &body).await.ok();
    }
    assert_eq!(events(&mut talk, 1).await[0]["subject"], "in/k");
}

#[tokio::test]
async fn subscribers_have_one_bound_by_either_door() {
    let server = Server::with(&["limits.subscribers=2"]);
    let (mut first, mut second) = (Talk::open(server.addr).await, Talk::open(server.addr).await);
    // The answer to a watch reads one page, as another subscriber, and is gone.
    assert_eq!(watch(&mut first, Value::Null).await["status"], 200);
    let refused = watch(&mut second, Value::Null).await;
    assert_eq!(refused["body"]["code"], "too-many-subscribers", "{refused}");
    first.ok("unwatch", &Value::Null).await;
    assert_eq!(watch(&mut second, Value::Null).await["status"], 200);
}
