//! `tenure get`: one lease.

use clap::Args;

use super::{Context, Exit, Failure, output::lease_rows};

/// Show who holds a key, since when, and for how long yet.
#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    /// The key
    key: String,
}

impl GetArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let lease = context.client.lease(&self.key).await?;
        context.output.record(&lease, &lease_rows(&lease))?;
        Ok(Exit::Done)
    }
}
