//! `contended`: many clients wait in the queues of few keys; each releases at once what it got.
//!
//! A hand-off is a grant to the next in the queue. Checked on the way: tokens of a key strictly
//! increase in the order of the grants.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use super::drive::{Client, Verdict};
use super::json::{integer, member, string};
use super::lab::Lab;
use super::report::Outcome;
use super::rounds::interleaved;
use super::tick::nonce;
use super::wire::{Answer, Template};

/// Keys that the clients share, unless told otherwise.
const KEYS: u64 = 8;
/// How long a client waits in a queue; also bounded by the driver's own limit.
const WAIT_MS: u64 = 10_000;
/// The leases' ttl: a client that dies must not stop the queue for long.
const TTL_MS: u64 = 10_000;

/// Runs the workload.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let target = server.target.clone();
    let prefix = format!("bench/{}", nonce());
    let keys = lab.args.keys.unwrap_or(KEYS);
    let last_tokens: Arc<Vec<AtomicU64>> = Arc::new((0..keys).map(|_| AtomicU64::new(0)).collect());
    let make = |_, index: usize| Contender {
        acquire: target.post("/v1/acquire"),
        release: target.post("/v1/release"),
        key: format!("{prefix}/{}", index as u64 % keys),
        owner: format!("bench-{index}"),
        queue: (index as u64 % keys) as usize,
        last_tokens: Arc::clone(&last_tokens),
        lease_id: None,
    };
    let rounds = interleaved(lab, &target, connections, "contended", make).await?;
    let mut outcome = Outcome::new("contended", connections, &server.version).of_rounds(
        rounds,
        lab.args.rounds,
        lab.args.seconds,
        "hand_offs_per_s",
    );
    outcome.figure("keys", keys as f64);
    Ok(outcome)
}

struct Contender {
    acquire: Template,
    release: Template,
    key: String,
    owner: String,
    queue: usize,
    last_tokens: Arc<Vec<AtomicU64>>,
    lease_id: Option<String>,
}

impl Client for Contender {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        let (key, owner) = (&self.key, &self.owner);
        // Writing to memory cannot fail.
        match &self.lease_id {
            None => self.acquire.fill(out, |body| {
                let _ = write!(
                    body,
                    "{{\"key\":\"{key}\",\"owner\":\"{owner}\",\"ttl_ms\":{TTL_MS},\
                     \"wait_ms\":{WAIT_MS}}}"
                );
            }),
            Some(lease_id) => self.release.fill(out, |body| {
                let _ = write!(body, "{{\"key\":\"{key}\",\"lease_id\":\"{lease_id}\"}}");
            }),
        }
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        if self.lease_id.take().is_some() {
            return match answer.status {
                200 => Verdict::Untimed(0),
                _ => Verdict::Unexpected("POST /v1/release"),
            };
        }
        let text = answer.text();
        let (Some((lease_id, _)), Some(token), 200) =
            (string(text, member::LEASE_ID), integer(text, member::TOKEN), answer.status)
        else {
            return Verdict::Unexpected("POST /v1/acquire, waiting");
        };
        self.lease_id = Some(lease_id.to_owned());
        // The one before us released only after it had seen its own grant: no race.
        match self.last_tokens[self.queue].swap(token, Ordering::Relaxed) < token {
            true => Verdict::Done(1),
            false => Verdict::Unexpected("token not above the key's last one"),
        }
    }

    fn lost(&mut self) {
        self.lease_id = None;
    }

    fn may_stop(&self) -> bool {
        self.lease_id.is_none()
    }
}
