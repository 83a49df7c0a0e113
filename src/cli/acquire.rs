//! `tenure acquire`: acquires one key, or some or all of several.

use std::{ops::Deref, time::Duration};

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;

use super::{
    Context, Exit, Failure,
    args::{duration, millis, person, secret, wait},
    output::{lease_rows, shown, span},
};
use crate::{
    api::Code,
    client::{Acquire, AcquireAll, AcquireAny, ClientError, Grant, Owner, WantedKey},
    clock::{Entropy, SystemEntropy, boottime_ms},
};

/// The longest single wait. A call that waits longer is sent again, and goes to the end of the queue.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// The shortest wait that is tried when the server refuses longer ones.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
/// The pause between two of these calls: a server that has no candidate answers at once.
const PAUSE: Duration = Duration::from_millis(200);

/// Acquire a lease and print it with its lease_id, the secret for renewing and releasing it.
///
/// This command does not renew the lease: it expires after its ttl unless someone sends heartbeats.
/// With --session, the heartbeats of the session keep it.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["key", "any", "all", "prefix"])))]
pub struct AcquireArgs {
    /// Key to acquire
    key: Option<String>,
    /// Any of these keys, separated by commas; repeatable
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    any: Vec<String>,
    /// Every one of these keys or none, separated by commas; repeatable
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    all: Vec<String>,
    /// How many permits of KEY to take, or none of them [default: 1]
    #[arg(long, value_name = "N", requires = "key", value_parser = clap::value_parser!(u32).range(1..=256))]
    permits: Option<u32>,
    /// All permits of KEY: nobody else has one meanwhile
    #[arg(long, requires = "key", conflicts_with = "permits")]
    exclusive: bool,
    /// Any known key with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Owner of the lease; by default USER@HOSTNAME#RANDOM, a new owner for each call
    #[arg(long, env = "TENURE_OWNER")]
    owner: Option<String>,
    /// How long the lease lasts without a heartbeat
    #[arg(long, value_parser = duration, default_value = "15s", conflicts_with = "session")]
    ttl: Duration,
    /// Id of the session that keeps the lease, instead of a ttl; better as `@FILE` or `-` (standard input)
    #[arg(long, env = "TENURE_SESSION_ID", hide_env_values = true, value_name = "ID", value_parser = secret)]
    session: Option<String>,
    /// How long to wait in the queue if the lease is not available: a duration or `forever` [default: do not wait]
    #[arg(long, value_parser = wait)]
    wait: Option<Duration>,
    /// Value to store with the lease; the next owner can read it
    #[arg(long, conflicts_with_all = ["any", "all", "prefix", "permits", "exclusive"])]
    value: Option<String>,
    /// If this owner already holds the lease, end that tenure and acquire the lease again
    #[arg(long, conflicts_with_all = ["any", "all", "prefix", "permits", "exclusive"])]
    reclaim: bool,
    /// For how long from the grant nobody else is granted the lease, even if it is released [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["any", "all", "prefix", "permits", "exclusive"])]
    min_hold: Option<Duration>,
    /// Idempotency key: a repeated call with the same id does not acquire twice [default: random]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// With --any or --prefix: maximum number of leases to acquire
    #[arg(long, conflicts_with_all = ["key", "all"], value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// With --any or --prefix: order in which keys are tried
    #[arg(long, conflicts_with_all = ["key", "all"])]
    order: Option<Order>,
}

/// The order in which the candidates are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// In random order, so that many callers spread over the keys
    Random,
    /// In the order in which they are listed
    Listed,
    /// Keys that this owner held before come first
    Sticky,
}

impl AcquireArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = &context.client;
        match self.key {
            Some(ref key) if !self.takes_several() => {
                let one = async |wait_ms| client.acquire(&self.one(key, wait_ms)).await;
                let (grant, asked) = in_turns(self.wait, one).await?;
                let grant = Printed::now(grant, asked);
                context.output.record(&grant, &grant_rows(&grant))?;
            }
            _ => {
                let some = async |wait_ms| match self.wanted() {
                    None => client.acquire_any(&self.some(wait_ms)).await,
                    Some(keys) => client.acquire_all(&self.whole(keys, wait_ms)).await,
                };
                let (found, asked) = in_turns(self.wait, some).await?;
                let grants =
                    found.grants.into_iter().map(|grant| Printed::now(grant, asked)).collect();
                let found = PrintedAll { grants };
                let heading = ["KEY", "OWNER", "TOKEN", "VALID_FOR", "LEASE_ID"];
                context.output.list("grants", &found, &found.grants, &heading, grant_row)?;
            }
        }
        Ok(Exit::Done)
    }

    fn one(&self, key: &str, wait_ms: Option<u64>) -> Acquire {
        Acquire {
            key: key.to_owned(),
            owner: self.owner(),
            wait_ms,
            value: self.value.clone(),
            reclaim: self.reclaim.then_some(true),
            min_hold_ms: self.min_hold.map(millis),
            request_id: Some(self.request_id()),
        }
    }

    fn takes_several(&self) -> bool {
        self.permits.is_some() || self.exclusive
    }

    /// The keys of which it takes all.
    fn wanted(&self) -> Option<Vec<WantedKey>> {
        let key = self.key.as_deref().map(|key| match self.permits {
            Some(permits) => WantedKey::new(key).permits(permits),
            None => WantedKey::new(key).exclusive(),
        });
        let all = self.all.iter().map(|key| WantedKey::new(key.as_str()));
        let wanted: Vec<WantedKey> = key.into_iter().chain(all).collect();
        (!wanted.is_empty()).then_some(wanted)
    }

    fn whole(&self, keys: Vec<WantedKey>, wait_ms: Option<u64>) -> AcquireAll {
        let request_id = Some(self.request_id());
        AcquireAll { keys, owner: self.owner(), wait_ms, request_id }
    }

    fn some(&self, wait_ms: Option<u64>) -> AcquireAny {
        let order = self.order.and_then(|order| order.to_possible_value());
        AcquireAny {
            keys: self.any.clone(),
            prefix: self.prefix.clone(),
            pool: None,
            owner: self.owner(),
            count: self.count.map(Into::into),
            order: order.map(|order| order.get_name().to_owned()),
            wait_ms,
            request_id: Some(self.request_id()),
        }
    }

    fn owner(&self) -> Owner {
        let owner = self.owner.clone().unwrap_or_else(person);
        let ttl_ms = self.session.is_none().then(|| millis(self.ttl));
        Owner { owner, ttl_ms, session: self.session.clone() }
    }

    fn request_id(&self) -> String {
        let random = || SystemEntropy::new().nonce().to_string();
        self.request_id.clone().unwrap_or_else(random)
    }
}

/// Asks once, or, for a wait that one call cannot last, again and again until the time is over. Returns the answer, and
/// when its request was sent: the server's durations count from there, before the wait for the lease.
async fn in_turns<T>(
    wait: Option<Duration>,
    ask: impl AsyncFn(Option<u64>) -> Result<T, ClientError>,
) -> Result<(T, u64), ClientError> {
    let until = boottime_ms().saturating_add(wait.map_or(0, millis));
    let mut longest = LONGEST_WAIT;
    loop {
        let asked = boottime_ms();
        let left = Duration::from_millis(until.saturating_sub(asked));
        let turn = wait.map(|wait| millis(wait.min(left).min(longest)));
        let error = match ask(turn).await {
            Ok(answer) => return Ok((answer, asked)),
            Err(error) => error,
        };
        if wait.is_none_or(|wait| wait <= LONGEST_WAIT) {
            return Err(error);
        }
        if is_too_long(&error) && longest > SHORTEST_WAIT {
            longest = (longest / 2).max(SHORTEST_WAIT);
        } else if is_taken(&error) && boottime_ms() < until {
            tokio::time::sleep(PAUSE).await;
        } else {
            return Err(error);
        }
    }
}

/// Whether the server accepts no wait of this length.
fn is_too_long(error: &ClientError) -> bool {
    error
        .problem()
        .is_some_and(|problem| problem.status == 400 && problem.field.as_deref() == Some("wait_ms"))
}

/// Whether the lease may become available.
fn is_taken(error: &ClientError) -> bool {
    use Code::{Cooling, Fencing, Held, NoneAvailable};
    let code = error.problem().and_then(|problem| Code::named(&problem.code));
    matches!(code, Some(Held | NoneAvailable | Cooling | Fencing))
}

/// A grant as it is printed: `valid_for_ms` is the time that is left at the moment of printing.
#[derive(Debug, PartialEq, Serialize)]
struct Printed {
    #[serde(flatten)]
    grant: Grant,
    /// When the lease expires unless it is renewed, in milliseconds of `CLOCK_BOOTTIME` on this machine.
    deadline_boottime_ms: u64,
}

#[derive(Serialize)]
struct PrintedAll {
    grants: Vec<Printed>,
}

impl Deref for Printed {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}

impl Printed {
    fn now(grant: Grant, asked: u64) -> Self {
        Self::at(boottime_ms(), grant, asked)
    }

    fn at(now: u64, mut grant: Grant, asked: u64) -> Self {
        let left = asked.saturating_add(grant.valid_for_ms).saturating_sub(now);
        grant.valid_for_ms = grant.lease.ttl_ms.map_or(left, |ttl| left.min(ttl));
        Self { deadline_boottime_ms: now.saturating_add(grant.valid_for_ms), grant }
    }
}

fn grant_rows(grant: &Grant) -> Vec<(String, String)> {
    let mut rows = lease_rows(&grant.lease);
    rows.push(("lease_id".into(), shown(&grant.lease_id)));
    rows.push(("valid_for".into(), span(Some(grant.valid_for_ms))));
    rows
}

fn grant_row(grant: &Printed) -> Vec<String> {
    vec![
        shown(&grant.lease.key),
        shown(grant.lease.owner.as_deref().unwrap_or("-")),
        grant.lease.token.unwrap_or_default().to_string(),
        span(Some(grant.valid_for_ms)),
        shown(&grant.lease_id),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_is_printed_and_never_more_than_the_ttl() {
        let printed = |now: u64, valid_for_ms: u64| {
            let grant = json!({ "key": "k", "state": "held", "ttl_ms": 10_000, "token": 7, "waiters": 0,
                "pinned": false, "lease_id": "00ff", "valid_for_ms": valid_for_ms });
            let grant = serde_json::from_value(grant).expect("a grant");
            let printed = Printed::at(now, grant, 1_000);
            (printed.valid_for_ms, printed.deadline_boottime_ms)
        };
        assert_eq!(printed(1_020, 10_000), (9_980, 11_000), "at once");
        assert_eq!(printed(2_720, 11_700), (9_980, 12_700), "after a wait");
        assert_eq!(printed(1_000, 11_700), (10_000, 11_000), "a server that errs");
        assert_eq!(printed(90_000, 10_000), (0, 90_000), "a machine that slept");
    }
}
