//! One trace through two nodes, a queue, a fence and the store.

use std::{fs, path::Path};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use crate::{
    support::{
        clock::{eventually, sleep_ms},
        http,
        nats_server::Server,
        node::Node,
    },
    traces::{
        SPAN, TRACE,
        collector::{Collector, Manner, Span},
        node::call,
        parent,
    },
};

/// How long the caller waits in the queue, at the least.
const WAIT_MS: u64 = 400;

/// The settings file: a fence of kind exec that writes down its `TRACEPARENT`.
fn settings(dir: &Path) -> String {
    let program = dir.join("shut");
    fs::write(&program, "printf %s \"$TRACEPARENT\" > \"$1\"\n").expect("a program");
    let command = ["/bin/sh".into(), program, dir.join("told")];
    let command: Vec<String> = command.iter().map(|part| part.display().to_string()).collect();
    format!(
        "[[plugin]]\nname = \"shut\"\nkind = \"exec\"\ncommand = {command:?}\n\n\
         [[policy]]\nprefix = \"accounts/\"\npool = \"accounts\"\nfence = [\"shut\"]\n\
         fence_when = \"before-grant\"\nfence_on_release = true\n"
    )
}

struct Two {
    a: Node,
    b: Node,
    _nats: Server,
    dir: tempfile::TempDir,
}

impl Two {
    async fn start(collector: &Collector) -> Self {
        let (nats, dir) = (Server::start(), tempfile::tempdir().expect("a directory"));
        let file = dir.path().join("tenure.toml");
        fs::write(&file, settings(dir.path())).expect("a settings file");
        let node = |name: &str| {
            let mut sets = collector.sets();
            sets.extend([
                "store.kind=nats".to_owned(),
                format!("store.nats.url={}", nats.url()),
                "store.nats.replicas=1".to_owned(),
                format!("node.witness={}", dir.path().join(format!("{name}.json")).display()),
                format!("node.name={name}"),
                "telemetry.log_format=json".to_owned(),
            ]);
            Node::new(name, &sets, &[]).configured(&file)
        };
        let (mut a, mut b) = (node("a"), node("b"));
        a.start().await;
        b.start().await;
        for node in [&a, &b] {
            eventually("the nodes know each other", async || {
                node.get("/v1/nodes").await["nodes"].as_array().is_some_and(|all| all.len() == 2)
            })
            .await;
        }
        Self { a, b, _nats: nats, dir }
    }
}

/// That a span lies within another one of the same node.
fn lies_within(part: &Span, whole: &Span) {
    assert_eq!(part.node, whole.node);
    assert!(whole.from <= part.from && part.to <= whole.to, "{part:?} in {whole:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_forwarded_waits_and_has_a_fence_run_is_one_trace() {
    let collector = Collector::start(Manner::Takes);
    let two = Two::start(&collector).await;
    let first = json!({"key": "accounts/1", "owner": "first", "ttl_ms": 60_000});
    let (status, grant) = two.a.post("/v1/acquire", &first).await;
    assert_eq!((status, grant["node"].as_str()), (200, Some(&*two.a.url)), "{grant}");

    let url = two.b.url.clone();
    let waiting = tokio::spawn(async move {
        let second = json!({
            "key": "accounts/1", "owner": "second", "ttl_ms": 60_000, "wait_ms": 30_000,
        });
        let headers = [("traceparent", &*parent()), ("tracestate", "vendor=1")];
        call(&http::client(), &url, "/v1/acquire", &headers, &second).await
    });
    eventually("the second one waits", async || {
        two.a.get("/v1/leases/accounts/1").await["waiters"] == 1
    })
    .await;
    sleep_ms(WAIT_MS).await;
    let proof = json!({"key": "accounts/1", "lease_id": grant["lease_id"]});
    assert_eq!(two.a.post("/v1/release", &proof).await.0, 200);
    let (status, second) = waiting.await.expect("no panic");
    assert_eq!(status, 200, "{second}");

    let at_b = collector.child("POST /v1/acquire", SPAN).await;
    let forward = collector.child("tenure.forward", &at_b.id).await;
    let at_a = collector.child("POST /v1/acquire", &forward.id).await;
    let mailbox = collector.child("tenure.mailbox", &at_a.id).await;
    let queue = collector.child("tenure.queue", &at_a.id).await;
    let write = collector.child("tenure.store.write", &at_a.id).await;
    let fence = collector.child("tenure.fence", &at_a.id).await;
    assert_eq!((&*at_b.node, &*at_a.node), ("b", "a"));
    lies_within(&forward, &at_b);
    for part in [&mailbox, &queue, &write, &fence] {
        lies_within(part, &at_a);
    }
    assert_eq!([at_b.kind, at_a.kind], [SpanKind::Server; 2]);
    assert_eq!([forward.kind, fence.kind], [SpanKind::Client; 2]);
    assert!(queue.to - queue.from >= WAIT_MS * 1_000_000, "{queue:?}");
    assert!(queue.to <= write.from, "{queue:?} before {write:?}");
    assert_eq!(write.attribute("tenure.outcome"), "committed");
    assert_eq!(fence.attribute("tenure.outcome"), "confirmed");
    assert_eq!(fence.attribute("tenure.owner"), "first");
    assert_eq!(fence.attribute("tenure.token"), grant["token"].to_string());
    for (name, value) in [
        ("tenure.key", "accounts/1"),
        ("tenure.owner", "second"),
        ("tenure.pool", "accounts"),
        ("http.route", "/v1/acquire"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!((at_a.attribute(name), at_b.attribute(name)), (value, value), "{name}");
    }
    assert_eq!(at_a.attribute("tenure.token"), second["token"].to_string());
    let told = fs::read_to_string(two.dir.path().join("told")).expect("the fence ran");
    assert_eq!(told, format!("00-{TRACE}-{}-01", fence.id));
    // The calls without a parent are not traced: no ratio is set.
    for span in collector.spans() {
        assert_eq!((&*span.trace, &*span.state), (TRACE, "vendor=1"), "{span:?}");
        assert!(!span.failed, "{span:?}");
    }
    the_log_has_the_ids(&two.a, &at_a).await;
}

/// The line of the second grant has the ids of the call that it was for, and that of the first one has none.
async fn the_log_has_the_ids(node: &Node, span: &Span) {
    let granted = |owner: &str| {
        let lines = node.said();
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"] == "granted" && line["owner"] == owner)
    };
    eventually("the grants are logged", async || granted("second").is_some()).await;
    let second = granted("second").expect("just seen");
    assert_eq!(second["trace_id"].as_str(), Some(TRACE), "{second}");
    assert_eq!(second["span_id"].as_str(), Some(&*span.id), "{second}");
    let first = granted("first").expect("it came before");
    assert!(first["trace_id"].is_null() && first["span_id"].is_null(), "{first}");
}
