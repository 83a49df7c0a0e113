//! A script that feeds every metric that a caller can feed.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::observability::node::{Node, eventually};

/// What the script used; none of it may appear where it must not.
pub struct Trace {
    /// Keys.
    pub keys: Vec<String>,
    /// Owners.
    pub owners: Vec<String>,
    /// The secrets.
    pub lease_ids: Vec<String>,
    subscriber: JoinHandle<()>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.subscriber.abort();
    }
}

impl Trace {
    async fn acquire(&mut self, node: &Node, body: Value) -> String {
        let grant = node.call("/v1/acquire", body).await;
        self.note(&grant)
    }

    /// Remembers a grant, and gives its secret.
    fn note(&mut self, grant: &Value) -> String {
        let text = |name: &str| grant[name].as_str().expect("a text").to_owned();
        self.keys.push(text("key"));
        self.owners.push(text("owner"));
        self.lease_ids.push(text("lease_id"));
        text("lease_id")
    }
}

/// Runs the script against a node; when it returns, one subscriber listens and some leases are held.
pub async fn run(node: &Node) -> Trace {
    let mut stream = node.stream("/v1/events").await;
    let subscriber = tokio::spawn(async move { while let Ok(Some(_)) = stream.chunk().await {} });
    let mut trace =
        Trace { keys: Vec::new(), owners: Vec::new(), lease_ids: Vec::new(), subscriber };
    hold_and_queue(node, &mut trace).await;
    expire(node, &mut trace).await;
    administer(node, &mut trace).await;
    hand_over(node, &mut trace).await;
    batches(node, &mut trace).await;
    let (status, _) = node.get("/v1/events?format=json&after=0").await;
    assert_eq!(status, 200);
    trace
}

/// Granted, held, alive, lost, released, an error, and a caller that waited.
async fn hold_and_queue(node: &Node, trace: &mut Trace) {
    let (key, w1, w2) = ("orders/shard 1", "worker-one", "worker-two");
    let id = trace
        .acquire(node, json!({"key": key, "owner": w1, "ttl_ms": 60_000, "request_id": "r1"}))
        .await;
    node.call("/v1/heartbeat", json!({"key": key, "lease_id": id})).await;
    node.refused("/v1/acquire", json!({"key": key, "owner": w2, "ttl_ms": 60_000}), 409).await;
    let reused = json!({"key": key, "owner": w2, "ttl_ms": 60_000, "request_id": "r1"});
    node.refused("/v1/acquire", reused, 422).await;
    let waiting = json!({"key": key, "owner": w2, "ttl_ms": 60_000, "wait_ms": 30_000});
    let release = async {
        let waits = async || node.scrape().await.sum("tenure_lease_waiters", &[]) > 0.0;
        eventually("a waiting caller is counted", waits).await;
        node.call("/v1/release", json!({"key": key, "lease_id": id})).await;
    };
    let (grant, ()) = tokio::join!(node.call("/v1/acquire", waiting), release);
    trace.note(&grant);
    node.refused("/v1/heartbeat", json!({"key": key, "lease_id": id}), 409).await;
    let again = json!({"key": key, "owner": w2, "ttl_ms": 60_000, "reclaim": true});
    trace.acquire(node, again).await;
}

/// Expired and revived; expired, vacant, and taken by another.
async fn expire(node: &Node, trace: &mut Trace) {
    let (key, w1, w2) = ("orders/shard 2", "worker-one", "worker-two");
    let id = trace.acquire(node, json!({"key": key, "owner": w1, "ttl_ms": 300})).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    node.call("/v1/heartbeat", json!({"key": key, "lease_id": id})).await;
    gone(node, key).await;
    let revived = node.call("/v1/heartbeat", json!({"key": key, "lease_id": id})).await;
    assert_eq!(revived["revived"], true, "{revived}");
    gone(node, key).await;
    trace.acquire(node, json!({"key": key, "owner": w2, "ttl_ms": 60_000})).await;
}

/// Pinned, unpinned and revoked.
async fn administer(node: &Node, trace: &mut Trace) {
    let (key, w1) = ("orders/shard 3", "worker-one");
    trace.acquire(node, json!({"key": key, "owner": w1, "ttl_ms": 60_000})).await;
    node.call("/v1/admin/pin", json!({"key": key, "by": "maintenance"})).await;
    node.call("/v1/admin/unpin", json!({"key": key, "by": "maintenance"})).await;
    let revoke = json!({"key": key, "reason": "a test", "immediately": true});
    node.call("/v1/admin/revoke", revoke).await;
    gone(node, key).await;
}

/// Transferred, and taken by the named successor.
async fn hand_over(node: &Node, trace: &mut Trace) {
    let (key, w1, w2) = ("orders/shard 4", "worker-one", "worker-two");
    let id = trace.acquire(node, json!({"key": key, "owner": w1, "ttl_ms": 60_000})).await;
    node.call("/v1/transfer", json!({"key": key, "lease_id": id, "to": w2})).await;
    trace.acquire(node, json!({"key": key, "owner": w2, "ttl_ms": 60_000})).await;
}

/// Several of several, kept and given back together.
async fn batches(node: &Node, trace: &mut Trace) {
    let keys: Vec<String> = (0..20).map(|n| format!("batch/{n}")).collect();
    let any = json!({"keys": keys, "owner": "worker-three", "ttl_ms": 60_000, "count": 20});
    let grants = node.call("/v1/acquire-any", any).await;
    let mut leases = Vec::new();
    for grant in grants["grants"].as_array().expect("grants") {
        trace.note(grant);
        leases.push(json!({"key": grant["key"], "lease_id": grant["lease_id"]}));
    }
    assert_eq!(leases.len(), 20);
    node.call("/v1/heartbeats", json!({"leases": leases})).await;
    node.call("/v1/releases", json!({"leases": leases[10..]})).await;
}

async fn gone(node: &Node, key: &str) {
    eventually("the tenure ended", async || {
        let (_, text) = node.get(&format!("/v1/leases/{}", key.replace(' ', "%20"))).await;
        serde_json::from_str::<Value>(&text).expect("JSON")["state"] == "free"
    })
    .await;
}
