//! An acquire that is repeated until it is settled.
//!
//! Guarantees: a request that may have been carried out is repeated under the same id, at any of the servers, and never
//! under another id before a server has settled it. So no call is granted twice.
//!
//! Does not guarantee: that a grant whose caller gave up is released at once. Without a runtime or a server, it ends
//! with its ttl or session.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    Client, ClientError, Grant, Grants, Problem,
    call::{ANSWER_TIMEOUT, Call},
    guarantee::Sent,
    overload,
};
use crate::{
    api::Code,
    clock::{Entropy, SystemEntropy},
    lease::Moment,
};

/// The longest single wait. A call that waits longer is sent again, and goes to the end of the queue.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The shortest wait that is tried when a server refuses longer ones.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// How long a call that does not wait may take to be answered.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long beyond its wait a call that may have been carried out is repeated.
const SETTLE: Duration = Duration::from_secs(10);
/// The pause between attempts: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// How often an abandoned grant is asked for, to release it.
const GIVE_BACK_TRIES: u32 = 20;

/// A request without its id and wait.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) path: &'static str,
    pub(super) body: Value,
}

/// A grant, and the moment at which its request was sent.
pub(super) struct Granted {
    pub(super) grant: Grant,
    pub(super) sent: Sent,
}

impl Granted {
    fn is_stale(&self, client: &Client) -> bool {
        let valid_for = Duration::from_millis(self.grant.valid_for_ms);
        client.clock.now() >= self.sent.at + valid_for
    }
}

/// The outcome of one request id.
enum Settled {
    Granted(Vec<Granted>),
    /// Nothing was granted, and nothing will be granted.
    Refused(ClientError),
    /// The server accepts no wait of this length.
    TooLong(ClientError),
}

impl Client {
    /// Repeats the request until it is granted or refused, or until the time is up.
    pub(super) async fn settle(
        &self,
        ask: Ask,
        wait: Duration,
        ttl: Duration,
    ) -> Result<Vec<Granted>, ClientError> {
        let until = self.clock.now() + wait;
        let mut longest = LONGEST_WAIT;
        loop {
            let left = until.since(self.clock.now());
            match self.one_id(&ask, left.min(longest), until, ttl).await {
                Settled::Granted(granted) => return Ok(granted),
                Settled::TooLong(_) if longest > SHORTEST_WAIT => {
                    longest = (left.min(longest) / 2).max(SHORTEST_WAIT);
                }
                Settled::TooLong(error) => return Err(error),
                Settled::Refused(error) if passes(&error) && self.clock.now() < until => {
                    tokio::time::sleep(PAUSES[0].min(until.since(self.clock.now()))).await;
                }
                Settled::Refused(error) => return Err(error),
            }
        }
    }

    /// Repeats the request under one id until it is settled.
    async fn one_id(&self, ask: &Ask, wait: Duration, until: Moment, ttl: Duration) -> Settled {
        let mut body = ask.body.clone();
        body["request_id"] = json!(SystemEntropy::new().nonce().to_string());
        let mut under_way =
            UnderWay { client: self.clone(), ask: Ask { path: ask.path, body }, live: false };
        let (start, mut turn, mut pause) = (self.clock.now(), 0, PAUSES[0]);
        let targets = self.targets(None);
        loop {
            let target = &targets[turn % targets.len()];
            let left = (start + wait).since(self.clock.now());
            let call = under_way.ask.call(left);
            let was_live = std::mem::replace(&mut under_way.live, true);
            let sent = Sent::now(self.clock.as_ref());
            let answer = self.call_at(&target.url, &call).await;
            let error = match answer.and_then(|answer| grants(answer, sent)) {
                Ok(granted) if granted.iter().any(|granted| granted.is_stale(self)) => {
                    // The repeat says what is left of the grant, or that it is over.
                    ClientError::not_understood("the answer came when it was no longer true")
                }
                Ok(granted) => {
                    under_way.live = false;
                    return Settled::Granted(granted);
                }
                Err(error) => error,
            };
            let now = self.clock.now();
            match &error {
                ClientError::Refused(problem) if is_too_long(problem) => {
                    under_way.live = false;
                    return Settled::TooLong(error);
                }
                ClientError::Refused(problem) if !asks_to_come_again(problem) => {
                    under_way.live = false;
                    return Settled::Refused(error);
                }
                // The request cannot have arrived.
                ClientError::Unreachable { sent: false, .. } => under_way.live = was_live,
                // The server did nothing.
                error if overload::is_overload(error) => under_way.live = was_live,
                _ => {}
            }
            turn += 1;
            if error.problem().is_none() || overload::is_overload(&error) {
                self.servers.failed(&target.url);
            }
            // A caller that waits also waits for a server. A request that may have been granted gets some more time.
            let end = if under_way.live {
                until.max(start + PATIENCE) + SETTLE.min(ttl)
            } else if wait.is_zero() && turn % targets.len() == 0 && is_unreachable(&error) {
                now
            } else {
                until.max(start + PATIENCE)
            };
            if now >= end {
                return Settled::Refused(error);
            }
            if turn % targets.len() == 0 {
                let asked = error.problem().and_then(|problem| problem.retry_after_ms);
                let rest = asked.map_or(pause, Duration::from_millis).min(PAUSES[1]);
                let rounds = u32::try_from(turn / targets.len()).unwrap_or(u32::MAX);
                let rest = overload::pause(&error, rounds).unwrap_or(rest);
                tokio::time::sleep(rest.min(end.since(now))).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
        }
    }
}

impl Ask {
    fn call(&self, wait: Duration) -> Call {
        let mut body = self.body.clone();
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        if wait_ms > 0 {
            body["wait_ms"] = json!(wait_ms);
        }
        let timeout = if wait_ms > 0 { wait + ANSWER_TIMEOUT } else { PATIENCE };
        Call::post(self.path, body).timeout(timeout)
    }
}

/// A request that may have been carried out. If it is dropped in this state, its grant is released.
struct UnderWay {
    client: Client,
    ask: Ask,
    live: bool,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (true, Ok(runtime)) = (self.live, Handle::try_current()) {
            let give_back = give_back(self.client.clone(), self.ask.clone());
            self.client.background.run(&runtime, give_back);
        }
    }
}

/// Asks under the same id what was granted, and releases it.
async fn give_back(client: Client, ask: Ask) {
    for _ in 0..GIVE_BACK_TRIES {
        // The server first needs time to notice that the caller has gone.
        tokio::time::sleep(PAUSES[0] * 4).await;
        let sent = Sent::now(client.clock.as_ref());
        let answer = client.ask_around(&ask.call(Duration::ZERO), None).await;
        match answer.and_then(|answer| grants(answer, sent)) {
            Ok(granted) => {
                for Granted { grant, .. } in granted {
                    let outcome = client.release(&grant.lease.key, &grant.lease_id, None).await;
                    tracing::debug!(key = grant.lease.key, ?outcome, "released an unused grant");
                }
                return;
            }
            Err(ClientError::Refused(problem)) if !asks_to_come_again(&problem) => return,
            Err(error) => {
                if let Some(pause) = overload::pause(&error, 1) {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// Reads one grant or several.
fn grants(answer: Value, sent: Sent) -> Result<Vec<Granted>, ClientError> {
    let read = match answer.get("grants") {
        Some(_) => serde_json::from_value(answer).map(|Grants { grants }| grants),
        None => serde_json::from_value(answer).map(|grant| vec![grant]),
    };
    let read: Vec<Grant> = read.map_err(|error| ClientError::not_understood(&error.to_string()))?;
    Ok(read.into_iter().map(|grant| Granted { grant, sent }).collect())
}

/// Whether a refusal leaves the outcome of the request open, so that it must be repeated unchanged.
fn asks_to_come_again(problem: &Problem) -> bool {
    let transient = matches!(problem.status, 429 | 500 | 502 | 503 | 504);
    (transient && problem.retryable) || problem.known() == Some(Code::RequestInFlight)
}

/// Whether a waiter goes on waiting after this answer.
fn passes(error: &ClientError) -> bool {
    use Code::{Cooling, Fencing, Held, NoneAvailable, RequestIdSpent};
    matches!(error.code(), Some(Held | NoneAvailable | Cooling | Fencing | RequestIdSpent))
}

fn is_too_long(problem: &Problem) -> bool {
    problem.status == 400 && problem.field.as_deref() == Some("wait_ms")
}

fn is_unreachable(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { sent: false, .. })
}
