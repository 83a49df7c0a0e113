//! `tenure release`: gives a lease back.

use clap::Args;

use super::{Context, Exit, Failure, args::secret, output::talk};
use crate::api::ReleaseBody;

/// Release a lease. Succeeds if the lease is already over.
#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// Key of the lease
    key: String,
    /// Secret that `acquire` printed; better as `@FILE` or `-` (standard input): others can see arguments
    #[arg(long, env = "TENURE_LEASE_ID", hide_env_values = true, value_parser = secret)]
    lease_id: String,
    /// Value to store with the key; the next owner can read it
    #[arg(long)]
    value: Option<String>,
    /// Why the lease is given back, for people; events and the history show it
    #[arg(long)]
    reason: Option<String>,
}

impl ReleaseArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Self { key, lease_id, value, reason } = self;
        let body = ReleaseBody { key, lease_id, value, reason };
        let released = context.client.release_with(&body).await?;
        if !released.released {
            talk(&format!("the lease on {} was already over", body.key));
        }
        let rows = [("released".to_owned(), released.released.to_string())];
        context.output.record(&released, &rows)?;
        Ok(Exit::Done)
    }
}
