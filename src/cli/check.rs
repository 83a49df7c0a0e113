//! `tenure check`: is a token the present holder's?

use clap::Args;

use super::{Context, Exit, Failure, output::lease_rows};

/// Tell by exit code whether a token is the present holder's: 0 when it is, 73 when not.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The key
    key: String,
    /// The fencing token
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
