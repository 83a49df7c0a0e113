//! `tenure get`: shows one lease.

use clap::Args;

use super::{Context, Exit, Failure, output::lease_rows};

/// Show who holds a key, since when, and when the lease expires.
#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    /// Key of the lease
    key: String,
}

impl GetArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let lease = context.client.lease(&self.key).await?;
        context.output.record(&lease, &lease_rows(&lease))?;
        Ok(Exit::Done)
    }
}
