//! One directory, which one version of the program leaves to the other.

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure::client::{Client, Hold};

use crate::{support::node::Node, upgrade::Version};

const TTL_MS: u64 = 60_000;

/// A directory, and the coordinator that has it.
struct Place {
    node: Node,
    _dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
        Self { node: Node::new("the node", &[data], &[]), _dir: dir }
    }

    async fn start(&mut self, version: Version) {
        self.node.launch_by(version.command());
        self.node.ready().await;
    }

    async fn call(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.node.post(path, &body).await;
        assert!([200, 201].contains(&status), "{path} {body}: {status} {answer}");
        answer
    }
}

/// What clients have from the version that wrote the directory.
struct Before {
    held: Value,
    kept: Value,
    session: Value,
    released: u64,
    events: Vec<Value>,
}

/// A held lease with a value, one that a session keeps, a pinned key, an offer, and one that is free again.
async fn fill(place: &Place) -> Before {
    let acquire = |key: &str, owner: &str| json!({ "key": key, "owner": owner, "ttl_ms": TTL_MS, "value": "v" });
    let held = place.call("/v1/acquire", acquire("held", "w")).await;
    let session = place.call("/v1/sessions", json!({ "owner": "s", "ttl_ms": TTL_MS })).await;
    let kept = json!({ "key": "kept", "owner": "s", "session": session["id"] });
    let kept = place.call("/v1/acquire", kept).await;
    let offered = place.call("/v1/acquire", acquire("offered", "w")).await;
    let offer = json!({
        "key": "offered", "lease_id": offered["lease_id"], "to": "next", "offer_ms": 600_000
    });
    place.call("/v1/transfer", offer).await;
    let free = place.call("/v1/acquire", acquire("free", "w")).await;
    let proof = json!({ "key": "free", "lease_id": free["lease_id"] });
    place.call("/v1/release", proof).await;
    place.call("/v1/admin/pin", json!({ "key": "free", "by": "ops" })).await;
    let released = free["token"].as_u64().expect("a token");
    Before { held, kept, session, released, events: events(place).await }
}

/// What the history says, in fields that every version has.
async fn events(place: &Place) -> Vec<Value> {
    let page = place.node.get("/v1/events?format=json&wait_ms=0&after=0").await;
    assert_eq!(page["reset"], false, "{page}");
    let told = |event: &Value| {
        let data = &event["data"];
        json!([event["id"], event["type"], event["subject"], data["seq"], data["token"]])
    };
    page["events"].as_array().expect("events").iter().map(told).collect()
}

/// The other version has everything, and goes on with it.
async fn check(place: &Place, before: &Before) {
    for (key, grant) in [("held", &before.held), ("kept", &before.kept)] {
        let lease = place.node.get(&format!("/v1/leases/{key}")).await;
        for field in ["owner", "token", "ttl_ms", "acquired_at"] {
            assert_eq!(lease[field], grant[field], "{field} of {lease}");
        }
    }
    assert_eq!(place.node.get("/v1/leases/held").await["value"], "v");
    let offered = place.node.get("/v1/leases/offered").await;
    assert_eq!(offered["state"], "offered", "{offered}");
    assert_eq!(place.node.get("/v1/leases/free").await["pinned"], true);
    let known = before.events.len();
    assert_eq!(events(place).await[..known], before.events, "the history goes on");

    let proof = json!({ "key": "held", "lease_id": before.held["lease_id"] });
    let beat = place.call("/v1/heartbeat", proof.clone()).await;
    assert_eq!(beat["token"], before.held["token"]);
    let id = before.session["id"].as_str().expect("an id");
    let beat = place.call(&format!("/v1/sessions/{id}/heartbeat"), json!({})).await;
    assert_eq!(beat["leases"]["count"], 1, "{beat}");
    place.call("/v1/admin/unpin", json!({ "key": "free", "by": "ops" })).await;
    let body = json!({ "key": "free", "owner": "x", "ttl_ms": TTL_MS });
    let next = place.call("/v1/acquire", body).await;
    assert!(next["token"].as_u64() > Some(before.released), "{next}");
    assert_eq!(place.call("/v1/release", proof).await["released"], true);
}

async fn changes_hands(from: Version, to: Version) {
    let mut place = Place::new();
    place.start(from).await;
    let before = fill(&place).await;
    place.node.stop().await;
    place.start(to).await;
    check(&place, &before).await;
    // And back, with what this version wrote.
    place.node.stop().await;
    place.start(from).await;
    let held = place.node.get("/v1/leases/held").await;
    assert_eq!(held["state"], "free", "{held}");
    assert_eq!(place.node.get("/v1/leases/free").await["owner"], "x");
    place.node.stop().await;
}

#[tokio::test]
async fn a_directory_of_the_previous_version_is_opened() {
    changes_hands(Version::Previous, Version::This).await;
}

#[tokio::test]
async fn the_previous_version_opens_the_directory_again() {
    changes_hands(Version::This, Version::Previous).await;
}

/// A process that was killed leaves the last group of writes to recovery.
#[tokio::test]
async fn a_version_that_was_killed_leaves_everything_to_the_other() {
    for (from, to) in [(Version::Previous, Version::This), (Version::This, Version::Previous)] {
        let mut place = Place::new();
        place.start(from).await;
        let before = fill(&place).await;
        place.node.kill();
        place.start(to).await;
        check(&place, &before).await;
        place.node.stop().await;
    }
}

#[tokio::test]
async fn a_worker_of_this_version_gives_its_lease_back_to_the_previous_one() {
    let mut place = Place::new();
    place.start(Version::Previous).await;
    let client = Client::new(&place.node.url).expect("an address");
    for hands_over in [false, true] {
        let lease = client.hold(Hold::key("k").owner("w")).await.expect("the lease");
        let ended = if hands_over {
            lease.transfer_because(None, Some("half"), "the tests fail").await
        } else {
            lease.release_because("the tests fail").await
        };
        assert!(ended.expect("it is told"), "hands over: {hands_over}");
        assert_eq!(client.lease("k").await.expect("the view").state, "free");
    }
}
