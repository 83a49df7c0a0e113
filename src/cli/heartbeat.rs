//! `tenure heartbeat`: renews a lease once.

use std::time::Duration;

use clap::Args;

use super::{
    Context, Exit, Failure,
    args::{duration, millis, secret},
    promise,
};
use crate::clock::boottime_ms;

/// Renew a lease once, and print how long it is held from now on.
///
/// The lease then lasts for its ttl, unless the next heartbeat comes before. A lease that a session keeps needs
/// `tenure sessions heartbeat` instead.
#[derive(Clone, Debug, Args)]
pub struct HeartbeatArgs {
    /// Key of the lease
    key: String,
    /// Secret that `acquire` printed; better as `@FILE` or `-` (standard input): others can see arguments
    #[arg(long, env = "TENURE_LEASE_ID", hide_env_values = true, value_parser = secret)]
    lease_id: String,
    /// New value of the key; the next owner can read it [default: it stays]
    #[arg(long)]
    value: Option<String>,
    /// New time that the lease lasts without a heartbeat [default: it stays]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    ttl: Option<Duration>,
}

impl HeartbeatArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (value, ttl) = (self.value.as_deref(), self.ttl.map(millis));
        let asked = boottime_ms();
        let alive = context.client.heartbeat_with(&self.key, &self.lease_id, value, ttl).await?;
        let printed = promise::at_printing(&alive, asked)?;
        let rows = promise::rows(&printed, &["key", "token", "revived", "valid_for_ms"]);
        context.output.record(&printed, &rows)?;
        Ok(Exit::Done)
    }
}
