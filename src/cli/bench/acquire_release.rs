//! `acquire-release`: each connection acquires and releases keys of its own, one per request.

use std::io::Write as _;

use anyhow::Result;

use super::drive::{Client, Verdict};
use super::json::{count_true, member, string};
use super::lab::Lab;
use super::report::Outcome;
use super::rounds::interleaved;
use super::tick::nonce;
use super::wire::{Answer, Target, Template};

/// Distinct keys over all connections, unless told otherwise; at least one per connection.
const KEYS: u64 = 1_000;
/// The leases' ttl: far longer than a cycle.
const TTL_MS: u64 = 60_000;

/// Runs the workload.
pub async fn measure(lab: &mut Lab, connections: usize) -> Result<Outcome> {
    let server = lab.server().await?;
    let target = server.target.clone();
    let prefix = format!("bench/{}", nonce());
    let keys = (lab.args.keys.unwrap_or(KEYS) / connections as u64).max(1);
    let make = |_, index| Cycle::new(&target, format!("{prefix}/{index}"), keys);
    let rounds = interleaved(lab, &target, connections, "acquire-release", make).await?;
    let mut outcome = Outcome::new("acquire-release", connections, &server.version).of_rounds(
        rounds,
        lab.args.rounds,
        lab.args.seconds,
        "cycles_per_s",
    );
    outcome.figure("keys", (keys * connections as u64) as f64);
    Ok(outcome)
}

/// One connection: acquire key 0, release it, acquire key 1, …
#[derive(Debug)]
pub struct Cycle {
    acquire: Template,
    release: Template,
    prefix: String,
    keys: u64,
    turn: u64,
    /// The lease held, between the two requests of a cycle.
    lease_id: Option<String>,
}

impl Cycle {
    /// A client of `keys` keys below `prefix`.
    pub fn new(target: &Target, prefix: String, keys: u64) -> Self {
        Self {
            acquire: target.post("/v1/acquire"),
            release: target.post("/v1/release"),
            prefix,
            keys,
            turn: 0,
            lease_id: None,
        }
    }
}

impl Client for Cycle {
    fn request(&mut self, out: &mut Vec<u8>) -> bool {
        let (prefix, key) = (&self.prefix, self.turn % self.keys);
        // Writing to memory cannot fail.
        match &self.lease_id {
            None => self.acquire.fill(out, |body| {
                let _ = write!(
                    body,
                    "{{\"key\":\"{prefix}/{key}\",\"owner\":\"{prefix}\",\"ttl_ms\":{TTL_MS}}}"
                );
            }),
            Some(lease_id) => self.release.fill(out, |body| {
                let _ = write!(body, "{{\"key\":\"{prefix}/{key}\",\"lease_id\":\"{lease_id}\"}}");
            }),
        }
        true
    }

    fn answer(&mut self, answer: Answer<'_>) -> Verdict {
        if self.lease_id.take().is_some() {
            self.turn += 1;
            return match answer.status {
                200 if count_true(answer.text(), member::RELEASED) == 1 => Verdict::Done(1),
                _ => Verdict::Unexpected("POST /v1/release"),
            };
        }
        match string(answer.text(), member::LEASE_ID) {
            Some((lease_id, _)) if answer.status == 200 => {
                self.lease_id = Some(lease_id.to_owned());
                Verdict::Done(0)
            }
            _ => {
                self.turn += 1;
                Verdict::Unexpected("POST /v1/acquire")
            }
        }
    }

    fn lost(&mut self) {
        self.lease_id = None;
        self.turn += 1;
    }

    fn may_stop(&self) -> bool {
        self.lease_id.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(client: &mut Cycle) -> String {
        let mut out = Vec::new();
        assert!(client.request(&mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cycle_is_an_acquire_and_the_release_of_what_it_gave() {
        let target = Target { address: ([127, 0, 0, 1], 1).into() };
        let mut client = Cycle::new(&target, "p".to_owned(), 2);
        assert!(sent(&mut client).ends_with("{\"key\":\"p/0\",\"owner\":\"p\",\"ttl_ms\":60000}"));
        let granted = Answer { status: 200, body: b"{\"lease_id\":\"abc\",\"token\":1}" };
        assert_eq!(client.answer(granted), Verdict::Done(0));
        assert!(!client.may_stop());
        let release = sent(&mut client);
        assert!(release.starts_with("POST /v1/release "), "{release}");
        assert!(release.ends_with("{\"key\":\"p/0\",\"lease_id\":\"abc\"}"), "{release}");
        let released = Answer { status: 200, body: b"{\"released\":true}" };
        assert_eq!(client.answer(released), Verdict::Done(1));
        assert!(client.may_stop());
        assert!(sent(&mut client).contains("\"key\":\"p/1\""));
    }

    #[test]
    fn a_refusal_is_unexpected_and_the_next_key_is_tried() {
        let target = Target { address: ([127, 0, 0, 1], 1).into() };
        let mut client = Cycle::new(&target, "p".to_owned(), 2);
        sent(&mut client);
        let held = Answer { status: 409, body: b"{\"code\":\"held\"}" };
        assert_eq!(client.answer(held), Verdict::Unexpected("POST /v1/acquire"));
        assert!(sent(&mut client).contains("\"key\":\"p/1\""));
    }
}
