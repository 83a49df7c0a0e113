//! `tenure acquire`: acquires one key, or some or all of several.

use std::{convert::Infallible, io, ops::Deref, time::Duration};

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    Context, Exit, Failure,
    args::{duration, millis, name, person, secret, wait},
    exit::advised,
    output::{lease_rows, shown, span, talk},
};
use crate::{
    client::{
        Acquire, AcquireAll, AcquireAny, Client, ClientError, Grant, Granted, Owner, WantedKey,
    },
    clock::boottime_ms,
};

/// How long the command tries to release a lease whose id it could not print, before it ends.
const LAST_WORD: Duration = Duration::from_secs(2);
/// When the command first looks whether a coordinator answers, and the interval of further looks.
const LOOKS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];
/// The longest time of a look.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells people while no coordinator answers.
async fn tell_of_silence(client: &Client) -> Infallible {
    sleep(LOOKS[0]).await;
    loop {
        // Any answer will do. This one costs the coordinator little.
        match timeout(PATIENCE, client.node_ttl()).await {
            Ok(Ok(_) | Err(ClientError::Refused(_))) => {}
            Ok(Err(error)) => talk(&format!("{error}; trying again")),
            Err(_) => talk(&format!("no answer from {} yet; trying again", client.servers())),
        }
        sleep(LOOKS[1]).await;
    }
}

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
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = name)]
    any: Vec<String>,
    /// Every one of these keys or none, separated by commas; repeatable
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = name)]
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
        let (client, wait) = (&context.client, self.wait.unwrap_or_default());
        let (path, body) = self.call();
        let granted = tokio::select! {
            granted = client.acquire_by(path, body, wait, self.ttl) => granted,
            never = tell_of_silence(client) => match never {},
        };
        if granted.is_err() {
            // A call without an answer may have been granted.
            let _ = timeout(LAST_WORD, client.settled()).await;
        }
        let granted = granted.map_err(|error| {
            advised(error, "--reclaim replaces that lease, and another --owner is another holder")
        });
        let grants: Vec<Printed> = granted?.into_iter().map(Printed::now).collect();
        let printed = self.print(context, &grants);
        let Err(error) = printed else { return Ok(Exit::Done) };
        let mut is_released = true;
        for grant in &grants {
            let released = client.release(&grant.lease.key, &grant.lease_id, None);
            let released = timeout(LAST_WORD, released).await;
            is_released &= released.is_ok_and(|released| released.is_ok());
        }
        let outcome = if is_released {
            "the command released each lease that it was granted"
        } else {
            "a lease that was granted could not be released: it lasts until it expires or its session ends"
        };
        Err(Failure::Unprinted { error, outcome })
    }

    fn print(&self, context: &Context, grants: &[Printed]) -> io::Result<()> {
        match grants {
            [grant] if self.is_for_one() => context.output.record(grant, &grant_rows(grant)),
            _ => {
                let heading = ["KEY", "OWNER", "TOKEN", "VALID_FOR", "LEASE_ID"];
                let whole = PrintedAll { grants };
                context.output.list("grants", &whole, grants, &heading, grant_row)
            }
        }
    }

    /// The path and the body of the call.
    fn call(&self) -> (&'static str, Value) {
        match (&self.key, self.wanted()) {
            (Some(key), _) if self.is_for_one() => ("acquire", json!(self.one(key))),
            (_, Some(keys)) => ("acquire-all", json!(self.whole(keys))),
            (_, None) => ("acquire-any", json!(self.some())),
        }
    }

    fn is_for_one(&self) -> bool {
        self.key.is_some() && self.permits.is_none() && !self.exclusive
    }

    fn one(&self, key: &str) -> Acquire {
        Acquire {
            key: key.to_owned(),
            owner: self.owner(),
            wait_ms: None,
            value: self.value.clone(),
            reclaim: self.reclaim.then_some(true),
            min_hold_ms: self.min_hold.map(millis),
            request_id: self.request_id.clone(),
        }
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

    fn whole(&self, keys: Vec<WantedKey>) -> AcquireAll {
        let request_id = self.request_id.clone();
        AcquireAll { keys, owner: self.owner(), wait_ms: None, request_id }
    }

    fn some(&self) -> AcquireAny {
        let order = self.order.and_then(|order| order.to_possible_value());
        AcquireAny {
            keys: self.any.clone(),
            prefix: self.prefix.clone(),
            pool: None,
            owner: self.owner(),
            count: self.count.map(Into::into),
            order: order.map(|order| order.get_name().to_owned()),
            wait_ms: None,
            request_id: self.request_id.clone(),
        }
    }

    fn owner(&self) -> Owner {
        let owner = self.owner.clone().unwrap_or_else(person);
        let ttl_ms = self.session.is_none().then(|| millis(self.ttl));
        Owner { owner, ttl_ms, session: self.session.clone() }
    }
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
struct PrintedAll<'a> {
    grants: &'a [Printed],
}

impl Deref for Printed {
    type Target = Grant;

    fn deref(&self) -> &Grant {
        &self.grant
    }
}

impl Printed {
    fn now(Granted { grant, sent }: Granted) -> Self {
        Self::at(boottime_ms(), grant, sent.boottime_ms)
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
