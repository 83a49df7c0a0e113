//! `acquire-release-batch`: acquire-any of a hundred keys at once, then one request that releases
//! them.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use super::drive::{Client, Verdict};
use super::json::{count_true, member, string};
use super::lab::Lab;
use super::report::Outcome;
use super::rounds::interleaved;
use super::tick::nonce;
use super::wire::{Answer, Target, Template};

/// Batches of keys that each connection goes through.
const BATCHES_PER_CONNECTION: u64 = 10;
/// The leases' ttl: far longer than a cycle.
const TTL_MS: u64 = 60_000;

/// Runs the workload.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let target = server.target.clone();
    let prefix = format!("bench/{}", nonce());
    let size = u64::from(lab.args.batch);
    let make = |_, index: usize| {
        let first = index as u64 * BATCHES_PER_CONNECTION;
        let keys = Range { first, batches: BATCHES_PER_CONNECTION, size };
        BatchCycle::new(&target, prefix.clone(), keys, None)
    };
    let rounds = interleaved(lab, &target, connections, "acquire-release-batch", make).await?;
    let mut outcome = Outcome::new("acquire-release-batch", connections, &server.version)
        .of_rounds(rounds, lab.args.rounds, lab.args.seconds, "cycles_per_s");
    outcome.figure("batch", f64::from(lab.args.batch));
    Ok(outcome)
}

/// The keys of one connection, in batches.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The number of its first batch.
    pub first: u64,
    /// How many batches it goes through, again and again.
    pub batches: u64,
    /// Keys per batch.
    pub size: u64,
}

/// One connection: acquire a batch, release it, acquire the next batch, …
#[derive(Debug)]
pub struct BatchCycle {
    acquire: Template,
    release: Template,
    prefix: String,
    keys: Range,
    turn: u64,
    /// What is held between the two requests: key and lease id.
    grants: Vec<(String, String)>,
    /// Cycles left to all connections together; `None` for no end.
    left: Option<Arc<AtomicU64>>,
}

impl BatchCycle {
    /// A client that goes through `keys` below `prefix`.
    pub fn new(target: &Target, prefix: String, keys: Range, left: Option<Arc<AtomicU64>>) -> Self {
        Self {
            acquire: target.post("/v1/acquire-any"),
            release: target.post("/v1/releases"),
            prefix,
            keys,
            turn: 0,
            grants: Vec::new(),
            left,
        }
    }

    /// Takes a batch's worth of cycles from what is left.
    fn may_begin(&self) -> bool {
        let Some(left) = &self.left else { return true };
        let size = self.keys.size;
        left.try_update(Ordering::Relaxed, Ordering::Relaxed, |it| {
            (it > 0).then(|| it.saturating_sub(size))
        })
        .is_ok()
    }
}

/// Writes the body of an acquire-any for the `size` keys of batch `batch`.
pub fn write_acquire_any(body: &mut Vec<u8>, prefix: &str, batch: u64, size: u64, ttl_ms: u64) {
    body.extend_from_slice(b"{\"keys\":[");
    for index in batch * size..(batch + 1) * size {
        let comma = if index > batch * size { "," } else { "" };
        // Writing to memory cannot fail, here and below.
        let _ = write!(body, "{comma}\"{prefix}/{index:08}\"");
    }
    let _ = write!(
        body,
        "],\"owner\":\"bench\",\"ttl_ms\":{ttl_ms},\"count\":{size},\"order\":\"listed\"}}"
    );
}

/// Writes the body of a releases or heartbeats request.
pub fn write_leases<'a>(body: &mut Vec<u8>, leases: impl IntoIterator<Item = (&'a str, &'a str)>) {
    body.extend_from_slice(b"{\"leases\":[");
    for (index, (key, lease_id)) in leases.into_iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(body, "{comma}{{\"key\":\"{key}\",\"lease_id\":\"{lease_id}\"}}");
    }
    body.extend_from_slice(b"]}");
}

/// Appends the grants of an acquire-any answer: key and lease id.
///
/// Each grant has one `key` and one `lease_id`, in whatever order.
pub fn read_grants(text: &str, grants: &mut Vec<(String, String)>) {
    let (mut keys, mut ids) = (text, text);
    while let (Some((key, after_key)), Some((lease_id, after_id))) =
        (string(keys, member::KEY), string(ids, member::LEASE_ID))
    {
        grants.push((key.to_owned(), lease_id.to_owned()));
        (keys, ids) = (after_key, after_id);
    }
}

impl Client for BatchCycle {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        if !self.grants.is_empty() {
            let leases = self.grants.iter().map(|(key, id)| (key.as_str(), id.as_str()));
            self.release.fill(out, |body| write_leases(body, leases));
            return true;
        }
        if !self.may_begin() {
            return false;
        }
        let batch = self.keys.first + self.turn % self.keys.batches;
        self.turn += 1;
        self.acquire.fill(out, |body| {
            write_acquire_any(body, &self.prefix, batch, self.keys.size, TTL_MS);
        });
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        if !self.grants.is_empty() {
            let held = self.grants.len();
            self.grants.clear();
            return match answer.status {
                200 if count_true(answer.text(), member::RELEASED) == held => {
                    Verdict::Done(held as u64)
                }
                _ => Verdict::Unexpected("POST /v1/releases"),
            };
        }
        if answer.status == 200 {
            read_grants(answer.text(), &mut self.grants);
        }
        match self.grants.len() as u64 == self.keys.size {
            true => Verdict::Done(0),
            false => Verdict::Unexpected("POST /v1/acquire-any"),
        }
    }

    fn lost(&mut self) {
        self.grants.clear();
    }

    fn may_stop(&self) -> bool {
        self.grants.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_acquired_and_what_was_granted_is_released() {
        let target = Target { address: ([127, 0, 0, 1], 1).into() };
        let keys = Range { first: 3, batches: 1, size: 2 };
        let left = Arc::new(AtomicU64::new(2));
        let mut client = BatchCycle::new(&target, "p".to_owned(), keys, Some(left));
        let mut out = Vec::new();
        assert!(client.request(&mut out));
        let text = String::from_utf8_lossy(&out).into_owned();
        assert!(text.contains("{\"keys\":[\"p/00000006\",\"p/00000007\"],"), "{text}");
        let body = br#"{"grants":[{"lease_id":"a","key":"k1"},{"key":"k2","lease_id":"b"}]}"#;
        assert_eq!(client.answer(Answer { status: 200, body }), Verdict::Done(0));
        assert!(client.request(&mut out));
        let text = String::from_utf8_lossy(&out).into_owned();
        let leases = r#"{"leases":[{"key":"k1","lease_id":"a"},{"key":"k2","lease_id":"b"}]}"#;
        assert!(text.ends_with(leases), "{text}");
        let body = br#"{"results":[{"released":true},{"released":true}]}"#;
        assert_eq!(client.answer(Answer { status: 200, body }), Verdict::Done(2));
        assert!(!client.request(&mut out), "both cycles are done");
    }

    #[test]
    fn fewer_grants_than_keys_are_unexpected_but_given_back() {
        let target = Target { address: ([127, 0, 0, 1], 1).into() };
        let keys = Range { first: 0, batches: 1, size: 2 };
        let mut client = BatchCycle::new(&target, "p".to_owned(), keys, None);
        let body = br#"{"grants":[{"key":"k1","lease_id":"a"}]}"#;
        let verdict = client.answer(Answer { status: 200, body });
        assert_eq!(verdict, Verdict::Unexpected("POST /v1/acquire-any"));
        assert!(!client.may_stop());
    }
}
