//! `contended`: many clients wait in the queues of few keys; each releases at once what it got.
//!
//! A hand-off is a grant to the next in the queue. Checked on the way: tokens of a key strictly
//! increase in the order of the grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use serde::de::IgnoredAny;
use tenure::client::Acquire;

use super::acquire;
use crate::http::Grant;
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;
use crate::stopwatch::key_prefix;

/// Keys that the clients share, unless told otherwise.
const KEYS: u64 = 8;
/// How long a client waits in a queue; also bounded by the driver's own limit.
const WAIT_MS: u64 = 10_000;
/// The leases' ttl: a client that dies must not stop the queue for long.
const TTL_MS: u64 = 10_000;

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let prefix = key_prefix();
    let keys = lab.args.keys.unwrap_or(KEYS);
    // The last token of each key.
    let tokens: Vec<_> = (0..keys).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let work = |index: usize, lane| {
        let key = index % tokens.len();
        let body = acquire(format!("{prefix}/{key}"), &format!("bench-{index}"), TTL_MS);
        let body = Acquire { wait_ms: Some(WAIT_MS), ..body };
        contend(lane, body, Arc::clone(&tokens[key]))
    };
    let rounds = interleaved(lab, &server.target, connections, work).await?;
    let mut outcome = Outcome::new("contended", connections, &server.version)
        .of_rounds(rounds, "hand_offs_per_s");
    outcome.figure("keys", keys as f64);
    Ok(outcome)
}

async fn contend(mut lane: Lane, body: Acquire, last: Arc<AtomicU64>) {
    while lane.is_open() {
        let Some(grant) = lane.post::<Grant>("/v1/acquire", &body).await else { continue };
        // The one before us released only after it had seen its own grant: no race.
        let before = last.swap(grant.token, Ordering::Relaxed);
        lane.judge(before < grant.token, 1, "token not above the key's last one");
        if lane.post::<IgnoredAny>("/v1/release", &grant).await.is_some() {
            lane.untimed(0);
        }
    }
}
