//! `acquire-release-batch`: acquire-any of a hundred keys at once, then one request that releases
//! them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use super::acquire_batch;
use crate::http::{Grants, Leases, Released, Results};
use crate::lab::Lab;
use crate::load::{Lane, interleaved};
use crate::report::Outcome;
use crate::stopwatch::key_prefix;

/// Batches of keys that each connection goes through.
const BATCHES_PER_CONNECTION: u64 = 10;
/// The leases' ttl: far longer than a cycle.
const TTL_MS: u64 = 60_000;

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let prefix = key_prefix();
    let size = lab.args.batch;
    let work = |index: usize, lane| {
        let first = index as u64 * BATCHES_PER_CONNECTION;
        let keys = Batches { prefix: prefix.clone(), first, batches: BATCHES_PER_CONNECTION, size };
        cycle(lane, keys, None)
    };
    let name = "acquire-release-batch";
    let rounds = interleaved(lab, &server.target, connections, work).await?;
    let mut outcome =
        Outcome::new(name, connections, &server.version).of_rounds(rounds, "cycles_per_s");
    outcome.figure("batch", f64::from(size));
    Ok(outcome)
}

/// The keys of one connection, in batches.
#[derive(Clone, Debug)]
pub struct Batches {
    /// What all of them begin with.
    pub prefix: String,
    /// The number of its first batch.
    pub first: u64,
    /// How many batches it goes through, again and again.
    pub batches: u64,
    /// Keys per batch.
    pub size: u32,
}

/// One connection: acquire a batch, release it, acquire the next batch, …
///
/// `left` counts the cycles that all connections together may still begin; `None` for no end.
pub async fn cycle(mut lane: Lane, keys: Batches, left: Option<Arc<AtomicU64>>) {
    let size = keys.size;
    let mut turn = 0;
    while lane.is_open() && left.as_ref().is_none_or(|left| take(left, u64::from(size))) {
        let batch = keys.first + turn % keys.batches;
        turn += 1;
        let body = acquire_batch(&keys.prefix, batch, size, TTL_MS);
        let Some(Grants { grants }) = lane.post("/v1/acquire-any", &body).await else { continue };
        lane.judge(grants.len() == size as usize, 0, "acquire-any granted less than was free");
        let body = Leases { leases: &grants };
        if let Some(Results { results }) =
            lane.post::<Results<Released>>("/v1/releases", &body).await
        {
            let released = results.iter().filter(|it| it.released).count();
            lane.judge(released == grants.len(), released as u64, "some releases ended nothing");
        }
    }
}

/// Takes `size` from what is left, if there is any.
fn take(left: &AtomicU64, size: u64) -> bool {
    let rest = |it: u64| (it > 0).then(|| it.saturating_sub(size));
    left.try_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_taken_to_its_end() {
        let left = AtomicU64::new(3);
        assert_eq!([take(&left, 2), take(&left, 2), take(&left, 2)], [true, true, false]);
    }
}
