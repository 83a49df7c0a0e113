//! Leases to measure with: many are acquired by batches, and given back at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use indicatif::ProgressBar;

use super::batch::{read_grants, write_acquire_any, write_leases};
use super::drive::{Client, Verdict, drive};
use super::json::{count, member};
use super::lab::Lab;
use super::server::Server;
use super::tally::{Faults, Window};
use super::tick::tick;
use super::wire::{Answer, Target, Template};

/// Connections that acquire and give back.
const CONNECTIONS: usize = 4;
/// The ttl of leases that must outlast any run: the longest that default settings allow, a day.
pub const LONG_TTL_MS: u64 = 86_400_000;

/// A lease that bench holds: key and lease id.
pub type Lease = (String, String);

/// What was acquired, and how long it took.
#[derive(Debug)]
pub struct Holding {
    /// The leases, in no order; empty when they were not to be kept.
    pub leases: Vec<Lease>,
    /// How many were granted.
    pub granted: u64,
    /// How long it took.
    pub took: Duration,
    /// What went wrong.
    pub faults: Faults,
}

/// Acquires `total` leases below `prefix` (rounded up to whole batches).
pub async fn hold(
    lab: &mut Lab,
    server: &Server,
    prefix: &str,
    total: u64,
    keep: bool,
) -> Result<Holding> {
    let size = u64::from(lab.args.batch);
    let batches = total.div_ceil(size);
    let progress = lab.show("acquiring", batches * size);
    let next = Arc::new(AtomicU64::new(0));
    let clients = (0..CONNECTIONS)
        .map(|_| Holder {
            acquire: server.target.post("/v1/acquire-any"),
            prefix: prefix.to_owned(),
            next: Arc::clone(&next),
            batches,
            size,
            keep,
            grants: Vec::new(),
            progress: progress.clone(),
        })
        .collect();
    let begun = tick();
    let ran = drive(&server.target, clients, Window::open(begun, lab.time_limit())).await?;
    let took = tick() - begun;
    lab.quiet();
    let granted = ran.tally.units;
    ensure!(
        granted > 0,
        "no lease was granted: {}",
        ran.tally.faults.first.as_deref().unwrap_or("no answer")
    );
    let leases = ran.clients.into_iter().flat_map(|client| client.grants).collect();
    Ok(Holding { leases, granted, took, faults: ran.tally.faults })
}

/// Gives `leases` back to a server that is not ours; ours ends anyway.
pub async fn give_back(lab: &mut Lab, server: &Server, leases: Vec<Lease>) -> Result<Faults> {
    if server.is_own() || leases.is_empty() {
        return Ok(Faults::default());
    }
    let client = Returner {
        release: server.target.post("/v1/releases"),
        size: lab.args.batch as usize,
        pending: 0,
        leases,
    };
    let window = Window::open(tick(), lab.time_limit());
    Ok(drive(&server.target, vec![client], window).await?.tally.faults)
}

struct Holder {
    acquire: Template,
    prefix: String,
    next: Arc<AtomicU64>,
    batches: u64,
    size: u64,
    keep: bool,
    grants: Vec<Lease>,
    progress: ProgressBar,
}

impl Client for Holder {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        let batch = self.next.fetch_add(1, Ordering::Relaxed);
        if batch < self.batches {
            self.acquire.fill(out, |body| {
                write_acquire_any(body, &self.prefix, batch, self.size, LONG_TTL_MS);
            });
        }
        batch < self.batches
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        if answer.status != 200 {
            return Verdict::Unexpected("POST /v1/acquire-any");
        }
        let granted = if self.keep {
            let before = self.grants.len();
            read_grants(answer.text(), &mut self.grants);
            (self.grants.len() - before) as u64
        } else {
            count(answer.text(), member::LEASE_ID) as u64
        };
        self.progress.inc(granted);
        match granted == self.size {
            true => Verdict::Done(granted),
            false => Verdict::Unexpected("POST /v1/acquire-any"),
        }
    }
}

struct Returner {
    release: Template,
    size: usize,
    /// How many of the last leases the request under way gives back.
    pending: usize,
    leases: Vec<Lease>,
}

impl Client for Returner {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        self.leases.truncate(self.leases.len() - self.pending);
        self.pending = self.size.min(self.leases.len());
        let batch = &self.leases[self.leases.len() - self.pending..];
        let leases = batch.iter().map(|(key, id)| (key.as_str(), id.as_str()));
        self.release.fill(out, |body| write_leases(body, leases));
        self.pending > 0
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        match answer.status {
            200 => Verdict::Done(self.pending as u64),
            _ => Verdict::Unexpected("POST /v1/releases"),
        }
    }
}

/// A heartbeat of one lease as a whole request.
pub fn heartbeat_request(target: &Target, lease: &Lease) -> Vec<u8> {
    let mut out = Vec::new();
    target.post("/v1/heartbeat").fill(&mut out, |body| {
        let (key, lease_id) = lease;
        body.extend_from_slice(
            format!("{{\"key\":\"{key}\",\"lease_id\":\"{lease_id}\"}}").as_bytes(),
        );
    });
    out
}

/// A heartbeat of many leases as a whole request.
pub fn heartbeats_request(target: &Target, leases: &[Lease]) -> Vec<u8> {
    let mut out = Vec::new();
    let leases = leases.iter().map(|(key, id)| (key.as_str(), id.as_str()));
    target.post("/v1/heartbeats").fill(&mut out, |body| write_leases(body, leases));
    out
}
