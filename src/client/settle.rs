//! An acquire that is repeated until it is settled.
//!
//! Guarantees: a request that may have been carried out is repeated under the same id, at any of the servers, and never
//! under another id before a server has settled it. So no call is granted twice. A caller that waits hears of a free
//! lease although its connection is silent: one call lasts 35 s at most, and a look over another connection ends a call
//! for a lease that is free.
//!
//! Does not guarantee: that a grant whose caller gave up is released at once. Without a runtime or a server, it ends
//! with its ttl or session.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::{
    Client, ClientError, Grant, Grants, Problem,
    ask::{ALL, Ask},
    guarantee::Sent,
    overload,
    sight::Sight,
};
use crate::{
    api::Code,
    clock::{Entropy, SystemEntropy},
    lease::Moment,
};

/// The longest wait of one call. Proxies and balancers often cut longer ones, or fall silent.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The shortest wait that is tried when a server refuses longer ones.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// How long a call may take to be answered, beyond its wait.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a call without a wait that may have been carried out is repeated, beyond [`PATIENCE`].
const SETTLE: Duration = Duration::from_secs(10);
/// How long after the time that its caller gave the last answer of a call with a wait may come.
const LATE: Duration = Duration::from_millis(500);
/// The pause between attempts: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// How often an abandoned grant is asked for, to release it.
const GIVE_BACK_TRIES: u32 = 20;

/// A grant, and the moment at which its request was sent.
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    pub(crate) sent: Sent,
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
    /// Acquires what the body says, and repeats the call until it is granted or refused, or until the time is up. `path` is
    /// the call below `/v1`.
    ///
    /// # Errors
    /// As [`Client::hold`].
    pub(crate) async fn acquire_by(
        &self,
        path: &'static str,
        body: Value,
        wait: Duration,
        ttl: Duration,
    ) -> Result<Vec<Granted>, ClientError> {
        self.settle(Ask { path, body, outwaits_its_own: false }, wait, ttl).await
    }

    /// Repeats the request until it is granted or refused, or until the time is up.
    pub(super) async fn settle(
        &self,
        ask: Ask,
        wait: Duration,
        ttl: Duration,
    ) -> Result<Vec<Granted>, ClientError> {
        let until = self.clock.now() + wait;
        let mut longest = LONGEST_WAIT;
        let mut id = new_id();
        loop {
            let left = until.since(self.clock.now());
            let error = match self.one_id(&ask, &id, longest, until, ttl).await {
                Settled::Granted(granted) => return Ok(granted),
                Settled::TooLong(_) if longest > SHORTEST_WAIT => {
                    longest = (left.min(longest) / 2).max(SHORTEST_WAIT);
                    continue;
                }
                Settled::TooLong(error) | Settled::Refused(error) => error,
            };
            let left = until.since(self.clock.now());
            let pause = ask.pause_after(&error).filter(|_| !left.is_zero());
            let Some(pause) = pause else { return Err(error) };
            // The id carries the place in the queue. That of a list is spent once it had some of the leases.
            if ask.path == ALL || error.code() == Some(Code::RequestIdSpent) {
                id = new_id();
            }
            tokio::time::sleep(pause.min(left)).await;
        }
    }

    /// Repeats the request under one id until it is settled. One call waits for `longest` at most.
    async fn one_id(
        &self,
        ask: &Ask,
        id: &str,
        longest: Duration,
        until: Moment,
        ttl: Duration,
    ) -> Settled {
        let mut ask = ask.clone();
        if ask.body.get("request_id").is_none() {
            ask.body["request_id"] = json!(id);
        }
        let mut under_way = UnderWay { client: self.clone(), ask, live: false };
        let (start, mut turn, mut pause) = (self.clock.now(), 0, PAUSES[0]);
        let waits = until > start;
        let mut sight = Sight::of(&under_way.ask);
        let targets = self.targets(None);
        loop {
            let target = &targets[turn % targets.len()];
            let sent = Sent::now(self.clock.as_ref());
            let left = until.since(sent.at).min(longest);
            let patience = if waits { (until + LATE).since(sent.at) } else { PATIENCE };
            let call = under_way.ask.call(left).timeout(patience.min(left + PATIENCE));
            let was_live = std::mem::replace(&mut under_way.live, true);
            let answer = tokio::select! {
                answer = self.call_at(&target.url, &call) => answer,
                () = sight.is_free(self), if !left.is_zero() => {
                    tracing::debug!(url = %target.url, "the lease is free: repeats the call that waits for it");
                    continue;
                }
            };
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
            // A caller that waits also waits for a server. Without a wait, a request that may have been granted gets some
            // more time.
            let end = if waits {
                until + LATE
            } else if under_way.live {
                start + PATIENCE + SETTLE.min(ttl)
            } else if turn % targets.len() == 0 && is_unreachable(&error) {
                now
            } else {
                start + PATIENCE
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
        let answer = client.ask_around(&ask.call(Duration::ZERO).timeout(PATIENCE), None).await;
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

fn new_id() -> String {
    SystemEntropy::new().nonce().to_string()
}

fn is_too_long(problem: &Problem) -> bool {
    problem.status == 400 && problem.field.as_deref() == Some("wait_ms")
}

fn is_unreachable(error: &ClientError) -> bool {
    matches!(error, ClientError::Unreachable { sent: false, .. })
}
