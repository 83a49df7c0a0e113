//! `tenure release`: gives a lease back.

use clap::Args;

use super::{Context, Exit, Failure, args::secret, output::talk};

/// Give a lease back; that it is over already is no failure.
#[derive(Clone, Debug, Args)]
pub struct ReleaseArgs {
    /// The key
    key: String,
    /// The secret that acquire printed: `@FILE` or `-` (standard input), since arguments are seen by all
    #[arg(long, env = "TENURE_LEASE_ID", hide_env_values = true, value_parser = secret)]
    lease_id: String,
    /// What the next owner will read
    #[arg(long)]
    value: Option<String>,
}

impl ReleaseArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let released =
            context.client.release(&self.key, &self.lease_id, self.value.as_deref()).await?;
        if !released.released {
            talk(&format!("the lease on {} was over already", self.key));
        }
        let rows = [("released".to_owned(), released.released.to_string())];
        context.output.record(&released, &rows)?;
        Ok(Exit::Done)
    }
}
