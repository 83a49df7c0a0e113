//! `expiry` and `expiry-spread`: many leases end at one instant, or within one second.
//!
//! How late is an event? The server counts a lease's ttl from a reading of its own between our
//! sending and its answer. So the true lateness lies between two figures, and both are told:
//! `lateness` counts from sending plus ttl (too high by the time that the grant took), and
//! `lateness_at_least` from the arrival of the answer plus ttl. An event before sending plus ttl
//! would be a lease ended early: a fault. Beside them the server's own histogram.
//!
//! Meanwhile another connection sends heartbeats for other keys at a steady pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::de::IgnoredAny;
use tokio::time::{sleep_until, timeout_at};

use super::acquire_batch;
use super::hold::{heartbeat_request, hold};
use crate::http::{Grant, Grants, Request, Subscriber};
use crate::lab::Lab;
use crate::load::{Faults, Lane, Latencies, Probes, Tally, drive};
use crate::report::Outcome;
use crate::server::Server;
use crate::stopwatch::{key_prefix, tick};

/// Leases that end at one instant, unless told otherwise.
pub const AT_ONCE: u64 = 10_000;
/// Leases that end within a second, unless told otherwise.
const SPREAD: u64 = 100_000;
/// Time to acquire them before the first one ends: some, and more for many.
pub const LEAD: Duration = Duration::from_secs(4);
/// Grants per second that even a slow disk is trusted with.
const SLOW_GRANTS_PER_S: u64 = 10_000;
/// A lease must be granted while this much of its ttl is left, or the run is void: the smallest
/// ttl that default settings allow is 100 ms.
const MARGIN: Duration = Duration::from_millis(200);
/// How long after the last deadline events may come.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Heartbeats of other keys per second, and over how many leases they go.
const BEATS_PER_S: u64 = 200;
const BYSTANDERS: u64 = 100;
/// How long before the first deadline the bystanders' latencies begin to count, and how long
/// after the last event they end.
const AROUND: Duration = Duration::from_millis(500);
/// The server's own histogram.
const OWN: &str = "tenure_lease_expiry_lateness_seconds";

/// When the leases end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// All at one instant.
    AtOnce,
    /// Evenly within a second.
    Spread,
}

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize, ends: Ends) -> Result<Outcome> {
    let (name, default) = match ends {
        Ends::AtOnce => ("expiry", AT_ONCE),
        Ends::Spread => ("expiry-spread", SPREAD),
    };
    let server = lab.server().await?;
    let disk = Probes::once(lab.scratch()?.path())?;
    let run = key_prefix();
    let others = hold(lab, &server, &format!("{run}/other"), BYSTANDERS, true).await?;
    let size = lab.args.batch;
    let batches = lab.args.count.unwrap_or(default).div_ceil(u64::from(size));
    let total = batches * u64::from(size);
    let prefix = format!("{run}/short");
    let before = server.scrape().await?;
    let mut subscriber =
        Subscriber::open(&server.target, &format!("types=expired&prefix={prefix}/")).await?;

    let lead = LEAD + Duration::from_secs(total / SLOW_GRANTS_PER_S);
    let plan = Plan { first_end: tick() + lead, ends, batches, size };
    let (granted, faults) = acquire_all(&server, &prefix, plan, connections).await?;
    let last_end = plan.end_of(batches.saturating_sub(1));
    sleep_until((plan.first_end - AROUND).into()).await;

    let over = Arc::new(AtomicBool::new(false));
    let at_latest = last_end + PATIENCE;
    let beats = bystanders(&server, &others.leases, at_latest, Arc::clone(&over));
    let watching = async {
        let seen = watch(&mut subscriber, &prefix, total, at_latest).await;
        sleep_until((tick() + AROUND).into()).await;
        over.store(true, Ordering::Relaxed);
        seen
    };
    let (beats, arrivals) = tokio::join!(beats, watching);
    let beats = beats?;
    let mut outcome = Outcome::new(name, connections, &server.version);
    outcome.disk = disk;
    outcome.seconds = lead.as_secs_f64();
    outcome.faults = others.faults;
    outcome.faults.merge(faults);
    outcome.faults.merge(beats.faults);
    judge(&mut outcome, &granted, &arrivals?, u64::from(size));
    outcome.figure("subscriber_resets", subscriber.resets() as f64);
    outcome.latency("bystander_heartbeat", beats.latencies.summary());
    let after = server.scrape().await?;
    for (label, quantile) in [
        ("server_lateness_p50_ms", 0.5),
        ("server_lateness_p99_ms", 0.99),
        ("server_lateness_p999_ms", 0.999),
    ] {
        outcome.figure_if(label, after.quantile_since(&before, OWN, quantile).map(|it| it * 1e3));
    }
    Ok(outcome)
}

/// When which batch of leases ends.
#[derive(Clone, Copy, Debug)]
struct Plan {
    first_end: Instant,
    ends: Ends,
    batches: u64,
    size: u32,
}

impl Plan {
    fn end_of(&self, batch: u64) -> Instant {
        match self.ends {
            Ends::AtOnce => self.first_end,
            Ends::Spread => {
                self.first_end + Duration::from_secs(1).mul_f64(batch as f64 / self.batches as f64)
            }
        }
    }
}

/// What is known about the deadlines of a batch.
#[derive(Clone, Copy, Debug)]
struct Granted {
    batch: u64,
    /// Sending plus ttl: the server's deadline is not before.
    earliest: Instant,
    /// Arrival of the answer plus ttl: the server's deadline is not after.
    latest: Instant,
}

async fn acquire_all(
    server: &Server,
    prefix: &str,
    plan: Plan,
    connections: usize,
) -> Result<(Vec<Granted>, Faults)> {
    let next = Arc::new(AtomicU64::new(0));
    let work = |_, lane| acquire_some(lane, prefix.to_owned(), plan, Arc::clone(&next));
    let span = plan.end_of(plan.batches).saturating_duration_since(tick());
    let (granted, tally) = drive(&server.target, connections, (Duration::ZERO, span), work).await?;
    let granted: Vec<_> = granted.into_iter().flatten().collect();
    ensure!(
        granted.len() as u64 == plan.batches,
        "only {} of {} batches were granted before the first deadline: the server or its disk is \
         too slow for this --count ({})",
        granted.len(),
        plan.batches,
        tally.faults.first.unwrap_or_else(|| "no fault".to_owned())
    );
    Ok((granted, tally.faults))
}

/// Acquires leases whose ttl leads to the planned end.
async fn acquire_some(
    mut lane: Lane,
    prefix: String,
    plan: Plan,
    next: Arc<AtomicU64>,
) -> Vec<Granted> {
    let mut granted = Vec::new();
    while lane.is_open() {
        let batch = next.fetch_add(1, Ordering::Relaxed);
        let sent = tick();
        let left = plan.end_of(batch).saturating_duration_since(sent);
        if batch >= plan.batches || left < MARGIN {
            break;
        }
        let ttl_ms = left.as_millis() as u64;
        let body = acquire_batch(&prefix, batch, plan.size, ttl_ms);
        let Some(Grants { grants }) = lane.post("/v1/acquire-any", &body).await else { continue };
        let whole = grants.len() == plan.size as usize;
        lane.judge(whole, u64::from(plan.size), "acquire-any granted less than was free");
        if whole {
            let (ttl, (_, arrived)) = (Duration::from_millis(ttl_ms), lane.last());
            granted.push(Granted { batch, earliest: sent + ttl, latest: arrived + ttl });
        }
    }
    granted
}

/// Heartbeats of leases that do not end, at a steady pace, until `over`.
async fn bystanders(
    server: &Server,
    leases: &[Grant],
    at_latest: Instant,
    over: Arc<AtomicBool>,
) -> Result<Tally> {
    let requests = leases.iter().map(|lease| heartbeat_request(&server.target, lease));
    let requests: Arc<Vec<Request>> = Arc::new(requests.collect::<Result<_>>()?);
    let begun = tick();
    let work = |_, mut lane: Lane| {
        let (requests, over) = (Arc::clone(&requests), Arc::clone(&over));
        async move {
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                let due = begun + Duration::from_micros(turn * 1_000_000 / BEATS_PER_S);
                if !lane.pace(due).await {
                    break;
                }
                let request = requests[turn as usize % requests.len()].clone();
                turn += 1;
                if lane.send::<IgnoredAny>(Ok(request)).await.is_some() {
                    lane.done(1);
                }
            }
        }
    };
    let span = (Duration::ZERO, at_latest - begun);
    Ok(drive(&server.target, 1, span, work).await?.1)
}

/// When each lease's `expired` event came, by the lease's number.
async fn watch(
    subscriber: &mut Subscriber,
    prefix: &str,
    expected: u64,
    at_latest: Instant,
) -> Result<Vec<Option<Instant>>> {
    let mut arrivals = vec![None; expected as usize];
    let mut missing = expected;
    while missing > 0 {
        // Out of time: what is missing is told as missing.
        let Ok(event) = timeout_at(at_latest.into(), subscriber.next()).await else { break };
        let (event, arrived) = (event?, tick());
        let number = event.subject.strip_prefix(prefix).and_then(|it| it.strip_prefix('/'));
        let number = number.and_then(|it| it.parse::<usize>().ok());
        if let Some(slot @ None) = number.and_then(|it| arrivals.get_mut(it)) {
            *slot = Some(arrived);
            missing -= 1;
        }
    }
    Ok(arrivals)
}

/// Holds the arrivals against the deadlines.
fn judge(outcome: &mut Outcome, granted: &[Granted], arrivals: &[Option<Instant>], size: u64) {
    let (mut over, mut under) = (Latencies::new(), Latencies::new());
    let (mut early, mut missing) = (0_u64, 0_u64);
    for it in granted {
        for arrival in &arrivals[(it.batch * size) as usize..((it.batch + 1) * size) as usize] {
            match arrival {
                None => missing += 1,
                Some(at) if *at < it.earliest => early += 1,
                Some(at) => {
                    over.record(*at - it.earliest);
                    under.record(at.saturating_duration_since(it.latest));
                }
            }
        }
    }
    outcome.figure("leases", (granted.len() as u64 * size) as f64);
    outcome.figure("missing_events", missing as f64);
    outcome.figure("early_events", early as f64);
    outcome.latency("lateness", over.summary());
    outcome.latency("lateness_at_least", under.summary());
    if missing > 0 {
        outcome.faults.add(|| format!("{missing} leases without an expired event"));
    }
    if early > 0 {
        outcome.faults.add(|| format!("{early} leases ended before their ttl was over"));
    }
}
