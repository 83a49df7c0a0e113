//! `tenure transfer`: hands a lease over.

use std::time::Duration;

use clap::Args;

use super::{
    Context, Exit, Failure,
    args::{duration, millis, secret},
};

/// Hand a lease over.
///
/// Whoever waits first has it at once. With --to it is kept for that owner until they acquire it or the
/// offer lapses.
#[derive(Clone, Debug, Args)]
pub struct TransferArgs {
    /// The key
    key: String,
    /// The secret that acquire printed: `@FILE` or `-` (standard input), since arguments are seen by all
    #[arg(long, env = "TENURE_LEASE_ID", hide_env_values = true, value_parser = secret)]
    lease_id: String,
    /// Who is to have it; whoever waits first, unless said
    #[arg(long, value_name = "OWNER")]
    to: Option<String>,
    /// How long it is kept for them
    #[arg(long, value_parser = duration, value_name = "DURATION", requires = "to")]
    offer: Option<Duration>,
    /// What they will read
    #[arg(long)]
    value: Option<String>,
}

impl TransferArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (offer, value) = (self.offer.map(millis), self.value.as_deref());
        let (key, id, to) = (&self.key, &self.lease_id, self.to.as_deref());
        let answer = context.client.transfer(key, id, to, offer, value).await?;
        context.answer(&answer)?;
        Ok(Exit::Done)
    }
}
