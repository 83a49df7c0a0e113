//! `contended`: many clients wait in the queues of few keys; each releases at once what it got.
//!
//! A hand-off is a grant to the next in the queue. Checked on the way: tokens of a key strictly
//! increase in the order of the grants.

use std::future::Future;
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
pub const KEYS: u64 = 8;
/// How long a client waits in a queue; also bounded by the driver's own limit.
pub const WAIT_MS: u64 = 10_000;
/// The leases' ttl: a client that dies must not stop the queue for long.
pub const TTL_MS: u64 = 10_000;

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let prefix = key_prefix();
    let keys = lab.args.keys.unwrap_or(KEYS);
    let queues = Queues::new(&prefix, keys);
    let work = |index, lane| queues.join(index, lane);
    let rounds = interleaved(lab, &server.target, connections, work).await?;
    let mut outcome = Outcome::new("contended", connections, &server.version)
        .of_rounds(rounds, "hand_offs_per_s");
    outcome.figure("keys", keys as f64);
    Ok(outcome)
}

/// The keys that clients queue for.
#[derive(Debug)]
pub struct Queues {
    prefix: String,
    /// The last token of each key.
    tokens: Vec<Arc<AtomicU64>>,
}

impl Queues {
    /// So many keys below `prefix`, none of which was ever held.
    pub fn new(prefix: &str, keys: u64) -> Self {
        let tokens = (0..keys).map(|_| Arc::new(AtomicU64::new(0))).collect();
        Self { prefix: prefix.to_owned(), tokens }
    }

    /// The client `index`, which queues for one of them again and again.
    pub fn join(&self, index: usize, lane: Lane) -> impl Future<Output = ()> + Send + use<> {
        let key = index % self.tokens.len();
        let body = acquire(format!("{}/{key}", self.prefix), &format!("bench-{index}"), TTL_MS);
        let body = Acquire { wait_ms: Some(WAIT_MS), ..body };
        contend(lane, body, Arc::clone(&self.tokens[key]))
    }
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
