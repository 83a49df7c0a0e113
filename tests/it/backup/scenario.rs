//! What holds on every store: a backup, a loss, a restore.

use serde_json::{Value, json};

use crate::backup::node::{Node, Place};

/// More keys than a scan is asked for at a time.
const MANY: usize = 600;
/// The answer to a proof that is worth nothing any more.
pub const LOST: u16 = 409;
/// Keys of one call.
const AT_ONCE: usize = 100;

/// What the world looked like.
pub struct Before {
    held: Value,
    /// The highest token that anybody was ever given.
    highest: u64,
}

/// Fills a store: held, free, pinned and offered keys, and many.
pub async fn fill(node: &Node) -> Before {
    for _ in 0..3 {
        node.acquire_and_release("jobs/free").await;
    }
    let held = node.acquire("jobs/held", "worker-1", "checkpoint 7").await;
    node.call("/v1/admin/pin", json!({"key": "jobs/free", "by": "ops"})).await;
    let offered = node.acquire("jobs/offered", "worker-2", "").await;
    let transfer = json!({
        "key": "jobs/offered", "lease_id": offered["lease_id"], "to": "worker-3", "offer_ms": 600_000
    });
    node.call("/v1/transfer", transfer).await;
    let mut left: Vec<String> = (0..MANY).map(|n| format!("many/{n}/ä\u{1F600}")).collect();
    let token = |grant: &Value| grant["token"].as_u64().expect("a token");
    let mut highest = token(&held);
    // A store that is slow is given what it can do at a time.
    while !left.is_empty() {
        let keys = &left[..left.len().min(AT_ONCE)];
        let body =
            json!({"keys": keys, "owner": "worker-4", "ttl_ms": 600_000, "count": keys.len()});
        let answer = node.call("/v1/acquire-any", body).await;
        for grant in answer["grants"].as_array().expect("grants") {
            highest = highest.max(token(grant));
            left.retain(|key| *key != grant["key"]);
        }
    }
    Before { held, highest }
}

/// Grants that are in no backup.
pub async fn go_on(node: &Node, before: &mut Before) {
    for _ in 0..5 {
        let token = node.acquire_and_release("jobs/free").await;
        before.highest = before.highest.max(token);
    }
}

/// Everything of the backup is there, and nothing that was given is given again.
pub async fn check(node: &Node, before: &Before, epoch: u64) {
    assert_eq!(node.get("/v1/info").await["epoch"], epoch);
    let held = node.get("/v1/leases/jobs/held").await;
    for field in ["owner", "token", "ttl_ms", "acquired_at"] {
        assert_eq!(held[field], before.held[field], "{field} of {held}");
    }
    assert_eq!((&held["state"], &held["value"]), (&json!("held"), &json!("checkpoint 7")));
    let offered = node.get("/v1/leases/jobs/offered").await;
    assert_eq!(offered["state"], "offered", "{offered}");
    assert_eq!(node.get("/v1/leases/jobs/free").await["pinned"], true);
    // It is worker-1's still.
    let rival = json!({"key": "jobs/held", "owner": "rival", "ttl_ms": 1000});
    node.refused("/v1/acquire", rival, 409).await;

    let proof = json!({"key": "jobs/held", "lease_id": before.held["lease_id"]});
    // Its tenure does not outlive its epoch: what was granted after the backup had higher tokens.
    node.refused("/v1/heartbeat", proof.clone(), LOST).await;
    for key in ["jobs/free", "jobs/new"] {
        let token = node.acquire_and_release(key).await;
        assert!(token > before.highest, "{key}: {token} after {}", before.highest);
    }
    assert_eq!(node.call("/v1/release", proof).await["released"], true);
    let next = node.acquire("jobs/held", "worker-5", "").await;
    assert!(next["token"].as_u64() > Some(before.highest), "{next}");
    let mut after = String::new();
    let mut count = 0;
    loop {
        let path =
            format!("/v1/leases?prefix=many/&state=held&owner=worker-4&limit=1000&after={after}");
        let page = node.get(&path).await;
        count += page["leases"].as_array().expect("leases").len();
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(count, MANY, "none of the many is missing");
}

/// The backup of a store, which cannot be brought back without a word.
pub fn refused_without_the_epoch(place: &Place, file: &str) {
    place
        .tenure(&["restore", "--file", file])
        .refused(64, &["--raise-epoch", "same tokens would be given a second time"]);
}

/// Brings it back.
pub fn restore(place: &Place, file: &str, epoch: u64) {
    let said =
        place.tenure(&["restore", "--file", file, "--raise-epoch", "--output", "json"]).json();
    assert_eq!((&said["epoch"], said["keys"].as_u64()), (&json!(epoch), Some(MANY as u64 + 3)));
}
