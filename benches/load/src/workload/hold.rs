//! Leases to measure with: many are acquired by batches, and given back at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::de::IgnoredAny;

use super::acquire_batch;
use crate::http::{Grant, Grants, Leases, Request, Target, json};
use crate::lab::Lab;
use crate::load::{Faults, Lane, drive};
use crate::server::Server;
use crate::stopwatch::tick;

/// Connections that acquire.
const CONNECTIONS: usize = 4;
/// The ttl of leases that must outlast any run: the longest that default settings allow, a day.
pub const LONG_TTL_MS: u64 = 86_400_000;

/// What was acquired, and how long it took.
#[derive(Debug)]
pub struct Holding {
    /// The leases, in no order; empty when they were not to be kept.
    pub leases: Vec<Grant>,
    /// How many were granted.
    pub granted: u64,
    /// How long it took.
    pub took: Duration,
    /// What went wrong.
    pub faults: Faults,
}

/// Acquires `total` leases below `prefix` (rounded up to whole batches).
pub async fn hold(
    lab: &Lab,
    server: &Server,
    prefix: &str,
    total: u64,
    keep: bool,
) -> Result<Holding> {
    let size = lab.args.batch;
    let batches = total.div_ceil(u64::from(size));
    let next = Arc::new(AtomicU64::new(0));
    let work = |_, lane| {
        let (prefix, next) = (prefix.to_owned(), Arc::clone(&next));
        acquire_all(lane, Plan { prefix, next, batches, size, keep })
    };
    let begun = tick();
    let span = (Duration::ZERO, lab.time_limit());
    let (leases, tally) = drive(&server.target, CONNECTIONS, span, work).await?;
    let took = tick() - begun;
    let granted = tally.units;
    let why = tally.faults.first.as_deref().unwrap_or("no answer");
    ensure!(granted > 0, "no lease was granted: {why}");
    let leases = leases.into_iter().flatten().collect();
    Ok(Holding { leases, granted, took, faults: tally.faults })
}

/// What the connections acquire together.
struct Plan {
    prefix: String,
    /// The number of the next batch.
    next: Arc<AtomicU64>,
    batches: u64,
    size: u32,
    keep: bool,
}

async fn acquire_all(mut lane: Lane, plan: Plan) -> Vec<Grant> {
    let mut kept = Vec::new();
    while lane.is_open() {
        let batch = plan.next.fetch_add(1, Ordering::Relaxed);
        if batch >= plan.batches {
            break;
        }
        let body = acquire_batch(&plan.prefix, batch, plan.size, LONG_TTL_MS);
        let Some(Grants { grants }) = lane.post("/v1/acquire-any", &body).await else { continue };
        let granted = grants.len() as u64;
        let whole = granted == u64::from(plan.size);
        lane.judge(whole, granted, "acquire-any granted less than was free");
        if plan.keep {
            kept.extend(grants);
        }
    }
    kept
}

/// Gives `leases` back to a server that is not ours; ours ends anyway.
pub async fn give_back(lab: &Lab, server: &Server, leases: Vec<Grant>) -> Result<Faults> {
    if server.is_own() || leases.is_empty() {
        return Ok(Faults::default());
    }
    let (size, leases) = (lab.args.batch as usize, Arc::new(leases));
    let work = |_, mut lane: Lane| {
        let leases = Arc::clone(&leases);
        async move {
            for batch in leases.chunks(size) {
                lane.post::<IgnoredAny>("/v1/releases", &Leases { leases: batch }).await;
            }
        }
    };
    let span = (Duration::ZERO, lab.time_limit());
    Ok(drive(&server.target, 1, span, work).await?.1.faults)
}

/// A heartbeat of one lease as a whole request.
pub fn heartbeat_request(target: &Target, lease: &Grant) -> Result<Request> {
    target.post("/v1/heartbeat", json(lease))
}
