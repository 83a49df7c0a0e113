//! `sessions`: many leases under few heartbeats.
//!
//! First plain leases are held, then as many under sessions, each by a coordinator of its own: what one
//! costs in resident memory. Then the sessions are kept, and their heartbeats alone. In the end a session
//! with very many leases is destroyed while the others go on: how long until all of its leases have ended,
//! and how the others fare meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tenure::client::{Acquire, Owner};
use tokio::time::sleep;

use super::hold::{LONG_TTL_MS, hold};
use crate::http::Request;
use crate::lab::Lab;
use crate::load::{Faults, Lane, drive, interleaved};
use crate::report::Outcome;
use crate::server::Server;
use crate::stopwatch::{key_prefix, tick};

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
/// How long the others are watched, at least, while a session ends.
const MEANWHILE: Duration = Duration::from_secs(4);

/// Runs the workload.
pub async fn measure(lab: &Lab, connections: usize) -> Result<Outcome> {
    ensure!(lab.args.server.is_none(), "sessions needs servers that the tool itself starts");
    let sessions = lab.args.keys.unwrap_or(SESSIONS);
    let each = u64::from(lab.args.batch);
    let total = sessions * each;
    let plain = plain_bytes(lab, total).await?;
    let server = lab.server().await?;
    let before = server.resident_bytes().await?;
    let made = make(lab, &server, sessions, each).await?;
    ensure!(made.leases == total, "{} of {total} leases: {:?}", made.leases, made.faults.first);
    sleep(SETTLE).await;
    let kept = (server.resident_bytes().await? - before) / total as f64;
    let request = |id| server.target.post(&format!("/v1/sessions/{id}/heartbeat"), "{}");
    let beats = Arc::new(made.sessions.iter().map(request).collect::<Result<Vec<_>>>()?);

    let writes_before = server.store_writes().await?;
    let work = |index, lane| beat(lane, Arc::clone(&beats), index, connections);
    let rounds = interleaved(lab, &server.target, connections, work).await?;
    let writes_after = server.store_writes().await?;
    let mut outcome = Outcome::new("sessions", connections, &server.version)
        .of_rounds(rounds, "heartbeats_per_s");
    outcome.figure("sessions", sessions as f64);
    outcome.figure("leases", total as f64);
    let written = writes_after.zip(writes_before).map(|(after, before)| after - before);
    outcome.figure_if("store_writes", written);
    outcome.figure("resident_per_plain_lease_bytes", plain.round());
    outcome.figure("resident_per_kept_lease_bytes", kept.round());
    outcome.figure("resident_ratio", kept / plain);
    outcome.faults.merge(made.faults);

    let big = make(lab, &server, 1, lab.args.count.unwrap_or(ENDING)).await?;
    let span = (Duration::ZERO, lab.round().max(MEANWHILE));
    let (others, end) =
        tokio::join!(drive(&server.target, connections, span, work), end(lab, &server, &big));
    let ((answered, took), (_, others)) = (end?, others?);
    outcome.figure("ending_leases", big.leases as f64);
    outcome.figure("ending_answered_s", answered.as_secs_f64());
    outcome.figure("ending_all_s", took.as_secs_f64());
    outcome.latency("others_meanwhile", others.latencies.summary());
    outcome.faults.merge(big.faults);
    outcome.faults.merge(others.faults);
    Ok(outcome)
}

/// Destroys the one session of `big`, a second from now; gives the time until the answer, and until
/// all of its leases have ended.
async fn end(lab: &Lab, server: &Server, big: &Made) -> Result<(Duration, Duration)> {
    let id = big.sessions.first().context("no session was made")?;
    let client = server.client()?;
    let all = ended(server).await? + big.leases as f64;
    sleep(Duration::from_secs(1)).await;
    let begun = tick();
    client.destroy_session(id).await?;
    let answered = tick() - begun;
    while ended(server).await? < all {
        ensure!(tick() - begun < lab.time_limit(), "the leases of a session do not end");
        sleep(LOOK).await;
    }
    Ok((answered, tick() - begun))
}

/// What a plain lease costs in resident memory.
async fn plain_bytes(lab: &Lab, total: u64) -> Result<f64> {
    let server = lab.server().await?;
    let before = server.resident_bytes().await?;
    let holding = hold(lab, &server, &key_prefix(), total, false).await?;
    sleep(SETTLE).await;
    Ok((server.resident_bytes().await? - before) / holding.granted as f64)
}

/// How many leases have ended with their session.
async fn ended(server: &Server) -> Result<f64> {
    let scrape = server.scrape().await?;
    Ok(scrape.sum("tenure_lease_ended_total", "reason=\"session-ended\"").unwrap_or(0.0))
}

/// Sessions that were made, and their leases.
struct Made {
    sessions: Vec<String>,
    leases: u64,
    faults: Faults,
}

async fn make(lab: &Lab, server: &Server, sessions: u64, each: u64) -> Result<Made> {
    let (next, prefix) = (Arc::new(AtomicU64::new(0)), key_prefix());
    let work = |_, lane| {
        let (prefix, next) = (prefix.clone(), Arc::clone(&next));
        make_some(lane, prefix, next, sessions, each)
    };
    let (makers, span) = (MAKERS.min(sessions) as usize, (Duration::ZERO, lab.time_limit()));
    let (made, tally) = drive(&server.target, makers, span, work).await?;
    let sessions = made.into_iter().flatten().collect();
    Ok(Made { sessions, leases: tally.units, faults: tally.faults })
}

/// A session that was made: the secret that authorises its heartbeat and end.
#[derive(Deserialize)]
struct Opened {
    id: String,
}

/// Makes a session, acquires its leases one by one, and goes on with the next.
async fn make_some(
    mut lane: Lane,
    prefix: String,
    next: Arc<AtomicU64>,
    sessions: u64,
    each: u64,
) -> Vec<String> {
    let mut made = Vec::new();
    let open = json!({
        "owner": "bench", "ttl_ms": LONG_TTL_MS, "behavior": "release", "lock_delay_ms": 0,
    });
    while lane.is_open() {
        let session = next.fetch_add(1, Ordering::Relaxed);
        if session >= sessions {
            break;
        }
        let Some(Opened { id }) = lane.post("/v1/sessions", &open).await else { continue };
        for lease in 0..each {
            if !lane.is_open() {
                break;
            }
            let owner =
                Owner { owner: "bench".to_owned(), ttl_ms: None, session: Some(id.clone()) };
            let key = format!("{prefix}/{session:05}/{lease:05}");
            let body = Acquire { key, owner, ..Acquire::default() };
            if lane.post::<IgnoredAny>("/v1/acquire", &body).await.is_some() {
                lane.done(1);
            }
        }
        made.push(id);
    }
    made
}

/// One connection: the heartbeat of every `stride`-th session from `turn` on.
async fn beat(mut lane: Lane, requests: Arc<Vec<Request>>, mut turn: usize, stride: usize) {
    while lane.is_open() {
        let request = requests[turn % requests.len()].clone();
        turn += stride;
        if lane.send::<IgnoredAny>(Ok(request)).await.is_some() {
            lane.done(1);
        }
    }
}
