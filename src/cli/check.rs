//! `tenure check`: checks whether a token is current.

use clap::Args;

use super::{Context, Exit, Failure, output::lease_rows};

/// Check whether a token is the current holder's: exit code 0 if it is, 73 if not.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Key of the lease
    key: String,
    /// Fencing token to check
    #[arg(long, env = "TENURE_TOKEN")]
    token: u64,
}

impl CheckArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let check = context.client.check(&self.key, self.token).await?;
        let mut rows = vec![("current".to_owned(), check.current.to_string())];
        rows.extend(check.lease.iter().flat_map(lease_rows));
        context.output.record(&check, &rows)?;
        Ok(if check.current { Exit::Done } else { Exit::NotAcquired })
    }
}
