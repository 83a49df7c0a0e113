//! `acquire-release`: each connection acquires and releases keys of its own, one per request.

use anyhow::Result;

use super::acquire;
use crate::endpoint::{Callable, Endpoint};
use crate::http::{Grant, Released};
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;
use crate::stopwatch::key_prefix;

/// Distinct keys over all connections, unless told otherwise; at least one per connection.
pub const KEYS: u64 = 1_000;
/// The leases' ttl: far longer than a cycle.
pub const TTL_MS: u64 = 60_000;

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let prefix = key_prefix();
    let keys = (lab.args.keys.unwrap_or(KEYS) / connections as u64).max(1);
    let work = |index, lane| cycle(lane, format!("{prefix}/{index}"), keys);
    let rounds = interleaved(lab, &server.target, connections, work).await?;
    let mut outcome = Outcome::new("acquire-release", connections, &server.version)
        .of_rounds(rounds, "cycles_per_s");
    outcome.figure("keys", (keys * connections as u64) as f64);
    Ok(outcome)
}

/// One connection: acquire key 0, release it, acquire key 1, …
pub async fn cycle<E: Endpoint>(mut lane: Lane<E>, prefix: String, keys: u64)
where
    Lane<E>: Callable,
{
    let mut turn = 0;
    while lane.is_open() {
        let body = acquire(format!("{prefix}/{}", turn % keys), &prefix, TTL_MS);
        turn += 1;
        let Some(grant) = lane.make::<Grant>("acquire", &body).await else { continue };
        lane.done(0);
        let (begun, _) = lane.last();
        if let Some(verdict) = lane.make::<Released>("release", &grant).await {
            lane.judge(verdict.released, 1, "a release ended nothing");
            lane.cycled(begun);
        }
    }
}
