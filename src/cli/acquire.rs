//! `tenure acquire`: one key, or some of several.

use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::{
    Context, Exit, Failure,
    args::{default_owner, duration, millis},
    output::{lease_rows, shown, span},
};
use crate::{
    client::{Acquire, AcquireAny, Grant, Owner},
    clock::{Entropy, SystemEntropy},
};

/// Acquire a lease and print it with its lease_id, the secret that keeps and releases it.
///
/// Nothing keeps the lease afterwards: it ends with its ttl unless somebody sends heartbeats. Under a
/// session (--session), that of the session keeps it.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["key", "any", "prefix"])))]
pub struct AcquireArgs {
    /// The key
    key: Option<String>,
    /// Any of these keys, with commas between; may be repeated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    any: Vec<String>,
    /// Any known key that starts with this
    #[arg(long)]
    prefix: Option<String>,
    /// Who acquires; by default the host's name and the number of this process
    #[arg(long, env = "TENURE_OWNER")]
    owner: Option<String>,
    /// How long the lease lasts without a heartbeat
    #[arg(long, value_parser = duration, default_value = "15s", conflicts_with = "session")]
    ttl: Duration,
    /// The id of the session that is to keep the lease, in place of a ttl
    #[arg(long, env = "TENURE_SESSION_ID", hide_env_values = true, value_name = "ID")]
    session: Option<String>,
    /// How long to wait in the queue when it is not to be had now
    #[arg(long, value_parser = duration)]
    wait: Option<Duration>,
    /// What the next owner will read
    #[arg(long, conflicts_with_all = ["any", "prefix"])]
    value: Option<String>,
    /// Take the lease anew when this owner holds it already; its earlier tenure ends
    #[arg(long, conflicts_with_all = ["any", "prefix"])]
    reclaim: bool,
    /// Makes the call repeatable: the same id never acquires twice; by default a random one
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// With --any or --prefix: most leases to acquire
    #[arg(long, conflicts_with = "key", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// With --any or --prefix: in which order to try
    #[arg(long, conflicts_with = "key")]
    order: Option<Order>,
}

/// In which order the candidates are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// By chance, so that many callers spread
    Random,
    /// As written
    Listed,
    /// What this owner held before comes first
    Sticky,
}

impl AcquireArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.key {
            Some(ref key) => {
                let grant = context.client.acquire(&self.one(key)).await?;
                context.output.record(&grant, &grant_rows(&grant))?;
            }
            None => {
                let found = context.client.acquire_any(&self.some()).await?;
                let heading = ["KEY", "OWNER", "TOKEN", "VALID_FOR", "LEASE_ID"];
                context.output.list(&found, &found.grants, &heading, grant_row)?;
            }
        }
        Ok(Exit::Done)
    }

    fn one(&self, key: &str) -> Acquire {
        Acquire {
            key: key.to_owned(),
            owner: self.owner(),
            wait_ms: self.wait.map(millis),
            value: self.value.clone(),
            reclaim: self.reclaim.then_some(true),
            request_id: Some(self.request_id()),
        }
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
            wait_ms: self.wait.map(millis),
            request_id: Some(self.request_id()),
        }
    }

    fn owner(&self) -> Owner {
        let owner = self.owner.clone().unwrap_or_else(default_owner);
        let ttl_ms = self.session.is_none().then(|| millis(self.ttl));
        Owner { owner, ttl_ms, session: self.session.clone() }
    }

    fn request_id(&self) -> String {
        let random = || SystemEntropy::new().nonce().to_string();
        self.request_id.clone().unwrap_or_else(random)
    }
}

fn grant_rows(grant: &Grant) -> Vec<(String, String)> {
    let mut rows = lease_rows(&grant.lease);
    rows.push(("lease_id".into(), shown(&grant.lease_id)));
    rows.push(("valid_for".into(), span(Some(grant.valid_for_ms))));
    rows
}

fn grant_row(grant: &Grant) -> Vec<String> {
    vec![
        shown(&grant.lease.key),
        shown(grant.lease.owner.as_deref().unwrap_or("-")),
        grant.lease.token.unwrap_or_default().to_string(),
        span(Some(grant.valid_for_ms)),
        shown(&grant.lease_id),
    ]
}
