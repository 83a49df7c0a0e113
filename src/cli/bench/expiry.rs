//! `expiry` and `expiry-spread`: many leases end at one instant, or within one second.
//!
//! How late is an event? The server counts a lease's ttl from a reading of its own between our
//! sending and its answer. So the true lateness lies between two figures, and both are told:
//! `lateness` counts from sending plus ttl (too high by the time that the grant took), and
//! `lateness_at_least` from the arrival of the answer plus ttl. An event before sending plus ttl
//! would be a lease ended early: a fault. Beside them the server's own histogram.
//!
//! Meanwhile another connection sends heartbeats for other keys at a steady pace.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::time::{sleep_until, timeout_at};

use super::disk::Probes;
use super::drive::{Client, Verdict, drive};
use super::hold::{Lease, heartbeat_request, hold};
use super::json::{count, member, string};
use super::lab::Lab;
use super::report::Outcome;
use super::server::Server;
use super::sse::Subscriber;
use super::tally::{Faults, Latencies, Summary, Window};
use super::tick::{nonce, tick};
use super::wire::{Answer, Template};

/// Leases that end at one instant, unless told otherwise.
const AT_ONCE: u64 = 10_000;
/// Leases that end within a second, unless told otherwise.
const SPREAD: u64 = 100_000;
/// Time to acquire them before the first one ends: some, and more for many.
const LEAD: Duration = Duration::from_secs(4);
/// Grants per second that even a slow disk is trusted with.
const SLOW_GRANTS_PER_S: u64 = 10_000;
/// A lease must be granted while this much of its ttl is left, or the run is void: the smallest
/// ttl that default settings allow is 100 ms.
const MARGIN: Duration = Duration::from_millis(200);
/// How long after the last deadline events may come.
const PATIENCE: Duration = Duration::from_secs(60);
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
pub async fn measure(lab: &mut Lab, connections: usize, ends: Ends) -> Result<Outcome> {
    let (name, default) = match ends {
        Ends::AtOnce => ("expiry", AT_ONCE),
        Ends::Spread => ("expiry-spread", SPREAD),
    };
    let server = lab.server().await?;
    let scratch = lab.scratch()?;
    let mut probes = Probes::new();
    probes.probe(scratch.path())?;
    let run = nonce();
    let others = hold(lab, &server, &format!("bench/{run}/other"), BYSTANDERS, true).await?;
    let size = u64::from(lab.args.batch);
    let batches = lab.args.count.unwrap_or(default).div_ceil(size);
    let prefix = format!("bench/{run}/short");
    let before = server.scrape().await?;
    let mut subscriber =
        Subscriber::open(&server.target, &format!("types=expired&prefix={prefix}/")).await?;

    let lead = LEAD + Duration::from_secs(batches * size / SLOW_GRANTS_PER_S);
    let plan = Plan { first_end: tick() + lead, ends, batches, size };
    let acquiring = acquire(&server, &prefix, plan, connections);
    let (granted, faults) = acquiring.await?;
    let last_end = plan.end_of(batches.saturating_sub(1));
    sleep_until((plan.first_end - AROUND).into()).await;

    let over = Arc::new(AtomicBool::new(false));
    let beats = bystanders(&server, &others.leases, last_end + PATIENCE, Arc::clone(&over));
    let watching = async {
        let seen = watch(&mut subscriber, &prefix, batches * size, last_end + PATIENCE).await;
        sleep_until((tick() + AROUND).into()).await;
        over.store(true, Ordering::Relaxed);
        seen
    };
    let (beats, arrivals) = tokio::join!(beats, watching);
    let (beats, beat_faults) = beats?;
    let mut outcome = Outcome::new(name, connections, &server.version);
    outcome.disk = probes.summary();
    outcome.seconds = lead.as_secs_f64();
    outcome.faults = others.faults;
    outcome.faults.merge(faults);
    outcome.faults.merge(beat_faults);
    judge(&mut outcome, &granted, &arrivals?, size);
    outcome.figure("subscriber_resets", subscriber.resets() as f64);
    outcome.latency("bystander_heartbeat", beats);
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
    size: u64,
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

async fn acquire(
    server: &Server,
    prefix: &str,
    plan: Plan,
    connections: usize,
) -> Result<(Vec<Granted>, Faults)> {
    let next = Arc::new(AtomicU64::new(0));
    let clients = (0..connections)
        .map(|_| Mortal {
            acquire: server.target.post("/v1/acquire-any"),
            prefix: prefix.to_owned(),
            plan,
            next: Arc::clone(&next),
            current: (0, plan.first_end, Duration::ZERO),
            granted: Vec::new(),
        })
        .collect();
    let window = Window::open(tick(), plan.end_of(plan.batches) - tick());
    let ran = drive(&server.target, clients, window).await?;
    let granted: Vec<_> = ran.clients.into_iter().flat_map(|client| client.granted).collect();
    ensure!(
        granted.len() as u64 == plan.batches,
        "only {} of {} batches were granted before the first deadline: the server or its disk is \
         too slow for this --count ({})",
        granted.len(),
        plan.batches,
        ran.tally.faults.first.unwrap_or_else(|| "no fault".to_owned())
    );
    Ok((granted, ran.tally.faults))
}

/// Acquires leases whose ttl leads to the planned end.
struct Mortal {
    acquire: Template,
    prefix: String,
    plan: Plan,
    next: Arc<AtomicU64>,
    /// The batch under way, when it was sent, with which ttl.
    current: (u64, Instant, Duration),
    granted: Vec<Granted>,
}

impl Client for Mortal {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        let batch = self.next.fetch_add(1, Ordering::Relaxed);
        let now = tick();
        let left = self.plan.end_of(batch).saturating_duration_since(now);
        if batch >= self.plan.batches || left < MARGIN {
            return false;
        }
        let ttl_ms = left.as_millis();
        let size = self.plan.size;
        self.current = (batch, now, Duration::from_millis(ttl_ms as u64));
        self.acquire.fill(out, |body| {
            body.extend_from_slice(b"{\"keys\":[");
            for index in batch * size..(batch + 1) * size {
                let comma = if index > batch * size { "," } else { "" };
                // Writing to memory cannot fail.
                let _ = write!(body, "{comma}\"{}/{index:08}\"", self.prefix);
            }
            let _ = write!(
                body,
                "],\"owner\":\"bench\",\"ttl_ms\":{ttl_ms},\"count\":{size},\"order\":\"listed\"}}"
            );
        });
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        let (batch, sent, ttl) = self.current;
        if answer.status != 200 || count(answer.text(), member::LEASE_ID) as u64 != self.plan.size {
            return Verdict::Unexpected("POST /v1/acquire-any");
        }
        self.granted.push(Granted { batch, earliest: sent + ttl, latest: tick() + ttl });
        Verdict::Done(self.plan.size)
    }
}

/// Heartbeats of leases that do not end, at a steady pace, until `over`.
async fn bystanders(
    server: &Server,
    leases: &[Lease],
    at_latest: Instant,
    over: Arc<AtomicBool>,
) -> Result<(Option<Summary>, Faults)> {
    let requests = leases.iter().map(|lease| heartbeat_request(&server.target, lease)).collect();
    let begun = tick();
    let client = Bystander { requests, begun, turn: 0, over };
    let ran =
        drive(&server.target, vec![client], Window { opens: begun, closes: at_latest }).await?;
    Ok((ran.tally.latencies.summary(), ran.tally.faults))
}

struct Bystander {
    requests: Vec<Vec<u8>>,
    begun: Instant,
    turn: u64,
    over: Arc<AtomicBool>,
}

impl Client for Bystander {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.extend_from_slice(&self.requests[self.turn as usize % self.requests.len()]);
        self.turn += 1;
        !self.over.load(Ordering::Relaxed)
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        match answer.status {
            200 => Verdict::Done(1),
            _ => Verdict::Unexpected("POST /v1/heartbeat, of a bystander"),
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(self.begun + Duration::from_micros(self.turn * 1_000_000 / BEATS_PER_S))
    }
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
        let mut seen = Vec::new();
        let reading = subscriber.read(|event| {
            let number = string(event.data, member::SUBJECT)
                .and_then(|(key, _)| key.strip_prefix(prefix)?.strip_prefix('/')?.parse().ok());
            seen.extend(number.filter(|_| event.kind == "expired").map(|it: usize| it));
        });
        // Out of time: what is missing is told as missing.
        let Ok(read) = timeout_at(at_latest.into(), reading).await else { break };
        let arrived = read.context("the event stream")?;
        for number in seen {
            if let Some(slot @ None) = arrivals.get_mut(number) {
                *slot = Some(arrived);
                missing -= 1;
            }
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
