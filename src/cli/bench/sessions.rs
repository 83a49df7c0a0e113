//! `sessions`: many leases under few heartbeats.
//!
//! First plain leases are held, then as many under sessions, each by a coordinator of its own: what one
//! costs in resident memory. Then the sessions are kept, and their heartbeats alone. In the end a session
//! with very many leases is destroyed while the others go on: how long until all of its leases have ended,
//! and how the others fare meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::sleep;

use super::drive::{Client, Verdict, drive};
use super::hold::{LONG_TTL_MS, hold};
use super::json::{member, string};
use super::lab::Lab;
use super::report::Outcome;
use super::rounds::interleaved;
use super::server::Server;
use super::tally::{Faults, Window};
use super::tick::{nonce, tick};
use super::wire::{Answer, Connection, Target, Template};

/// Sessions, unless told otherwise.
const SESSIONS: u64 = 1_000;
/// Leases of the session that ends, unless told otherwise.
const ENDING: u64 = 10_000;
/// Connections that make sessions and acquire.
const MAKERS: u64 = 16;
/// Rest before memory is read.
const SETTLE: Duration = Duration::from_secs(2);
/// How often it is looked whether all have ended.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the workload.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    ensure!(
        lab.args.globals.server.is_none(),
        "sessions are measured on coordinators of bench's own"
    );
    let sessions = lab.args.keys.unwrap_or(SESSIONS);
    let each = u64::from(lab.args.batch);
    let total = sessions * each;
    let plain = plain_bytes(lab, total).await?;
    let server = lab.server().await?;
    let before = server.resident_bytes().await?;
    let mut made = make(lab, &server, sessions, each).await?;
    ensure!(made.leases == total, "{} of {total} leases: {:?}", made.leases, made.faults.first);
    sleep(SETTLE).await;
    let kept = (server.resident_bytes().await? - before) / total as f64;
    let beats = Arc::new(made.sessions.iter().map(|id| beat_request(&server.target, id)).collect());

    let writes_before = writes(&server).await?;
    let client = |_, index| Beat { requests: Arc::clone(&beats), turn: index, stride: connections };
    let rounds = interleaved(lab, &server.target, connections, "sessions", client).await?;
    let writes_after = writes(&server).await?;
    let mut outcome = Outcome::new("sessions", connections, &server.version).of_rounds(
        rounds,
        lab.args.rounds,
        lab.args.seconds,
        "heartbeats_per_s",
    );
    outcome.figure("sessions", sessions as f64);
    outcome.figure("leases", total as f64);
    let written = writes_after.zip(writes_before).map(|(after, before)| after - before);
    outcome.figure_if("store_writes", written);
    outcome.figure("resident_per_plain_lease_bytes", plain.round());
    outcome.figure("resident_per_kept_lease_bytes", kept.round());
    outcome.figure("resident_ratio", kept / plain);

    let ending = lab.args.count.unwrap_or(ENDING);
    let big = make(lab, &server, 1, ending).await?;
    let id = big.sessions.first().context("no session was made")?;
    let ended_before = ended(&server).await?;
    let clients = (0..connections)
        .map(|turn| Beat { requests: Arc::clone(&beats), turn, stride: connections })
        .collect();
    let window = Window::open(tick(), lab.round().max(Duration::from_secs(4)));
    let end = async {
        sleep(Duration::from_secs(1)).await;
        let begun = tick();
        let mut connection = Connection::open(&server.target).await?;
        let status = connection.status(&close_request(&server.target, id)).await?;
        ensure!(status == 200, "DELETE /v1/sessions: {status}");
        let answered = tick() - begun;
        while ended(&server).await? < ended_before + big.leases as f64 {
            if tick() - begun > lab.time_limit() {
                bail!("the leases of a session do not end");
            }
            sleep(LOOK).await;
        }
        Ok::<_, anyhow::Error>((answered, tick() - begun))
    };
    let (others, end) = tokio::join!(drive(&server.target, clients, window), end);
    let ((answered, took), others) = (end?, others?.tally);
    outcome.figure("ending_leases", big.leases as f64);
    outcome.figure("ending_answered_s", answered.as_secs_f64());
    outcome.figure("ending_all_s", took.as_secs_f64());
    outcome.latency("others_meanwhile", others.latencies.summary());
    made.faults.merge(big.faults);
    made.faults.merge(others.faults);
    outcome.faults.merge(made.faults);
    Ok(outcome)
}

/// What a plain lease costs in resident memory.
async fn plain_bytes(lab: &mut Lab, total: u64) -> Result<f64> {
    let server = lab.server().await?;
    let before = server.resident_bytes().await?;
    let holding = hold(lab, &server, &format!("bench/{}", nonce()), total, false).await?;
    sleep(SETTLE).await;
    Ok((server.resident_bytes().await? - before) / holding.granted as f64)
}

/// How many compare-and-sets the store has done.
async fn writes(server: &Server) -> Result<Option<f64>> {
    let name = "tenure_store_request_duration_seconds_count";
    Ok(server.scrape().await?.sum(name, &["op=\"compare_and_set\""]))
}

/// How many leases have ended with their session.
async fn ended(server: &Server) -> Result<f64> {
    let scrape = server.scrape().await?;
    Ok(scrape.sum("tenure_lease_ended_total", &["reason=\"session-ended\""]).unwrap_or(0.0))
}

/// Sessions that were made, and their leases.
struct Made {
    sessions: Vec<String>,
    leases: u64,
    faults: Faults,
}

async fn make(lab: &mut Lab, server: &Server, sessions: u64, each: u64) -> Result<Made> {
    let progress = lab.show("making sessions", sessions * each);
    let (next, prefix) = (Arc::new(AtomicU64::new(0)), format!("bench/{}", nonce()));
    let makers = (0..MAKERS.min(sessions))
        .map(|_| Maker {
            open: server.target.post("/v1/sessions"),
            acquire: server.target.post("/v1/acquire"),
            prefix: prefix.clone(),
            next: Arc::clone(&next),
            sessions,
            each,
            made: Vec::new(),
            left: 0,
            at: 0,
            progress: progress.clone(),
        })
        .collect();
    let ran = drive(&server.target, makers, Window::open(tick(), lab.time_limit())).await?;
    lab.quiet();
    let made = ran.clients.into_iter().flat_map(|maker| maker.made).collect();
    Ok(Made { sessions: made, leases: ran.tally.units, faults: ran.tally.faults })
}

/// Makes a session, acquires its leases one by one, and goes on with the next.
struct Maker {
    open: Template,
    acquire: Template,
    prefix: String,
    next: Arc<AtomicU64>,
    sessions: u64,
    each: u64,
    made: Vec<String>,
    /// Leases that the last session has yet to get, and its number.
    left: u64,
    at: u64,
    progress: indicatif::ProgressBar,
}

impl Client for Maker {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(id) = self.made.last().filter(|_| self.left > 0) {
            let Self { prefix, at, left, .. } = self;
            let body = format!(
                "{{\"key\":\"{prefix}/{at:05}/{left:05}\",\"owner\":\"bench\",\"session\":\"{id}\"}}"
            );
            self.acquire.fill(out, |out| out.extend_from_slice(body.as_bytes()));
            return true;
        }
        self.at = self.next.fetch_add(1, Ordering::Relaxed);
        let body = format!(
            "{{\"owner\":\"bench\",\"ttl_ms\":{LONG_TTL_MS},\"behavior\":\"release\",\"lock_delay_ms\":0}}"
        );
        self.open.fill(out, |out| out.extend_from_slice(body.as_bytes()));
        self.at < self.sessions
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        match answer.status {
            200 => {
                self.left -= 1;
                self.progress.inc(1);
                Verdict::Done(1)
            }
            201 => match string(answer.text(), member::ID) {
                Some((id, _)) => {
                    self.made.push(id.to_owned());
                    self.left = self.each;
                    Verdict::Untimed(0)
                }
                None => Verdict::Unexpected("POST /v1/sessions"),
            },
            _ => Verdict::Unexpected("POST /v1/sessions or /v1/acquire"),
        }
    }
}

fn beat_request(target: &Target, id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let beat = target.post(&format!("/v1/sessions/{id}/heartbeat"));
    beat.fill(&mut out, |body| body.extend_from_slice(b"{}"));
    out
}

fn close_request(target: &Target, id: &str) -> Vec<u8> {
    format!("DELETE /v1/sessions/{id} HTTP/1.1\r\nhost: {}\r\n\r\n", target.address).into_bytes()
}

struct Beat {
    requests: Arc<Vec<Vec<u8>>>,
    turn: usize,
    stride: usize,
}

impl Client for Beat {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        out.clear();
        out.extend_from_slice(&self.requests[self.turn % self.requests.len()]);
        self.turn += self.stride;
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        match answer.status {
            200 => Verdict::Done(1),
            _ => Verdict::Unexpected("POST /v1/sessions/{id}/heartbeat"),
        }
    }
}
