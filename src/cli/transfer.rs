//! `tenure transfer`: hands a lease over to a named owner.

use std::time::Duration;

use clap::Args;

use super::{
    Context, Exit, Failure,
    args::{duration, millis},
};

/// Hand a lease over to a named owner.
///
/// It is kept for that owner until they acquire it or the offer lapses.
#[derive(Clone, Debug, Args)]
pub struct TransferArgs {
    /// The key
    key: String,
    /// The secret that acquire printed
    #[arg(long, env = "TENURE_LEASE_ID", hide_env_values = true)]
    lease_id: String,
    /// Who is to have it
    #[arg(long, value_name = "OWNER")]
    to: String,
    /// How long it is kept for them
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    offer: Option<Duration>,
    /// What they will read
    #[arg(long)]
    value: Option<String>,
}

impl TransferArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (offer, value) = (self.offer.map(millis), self.value.as_deref());
        let answer = context
            .client
            .transfer(&self.key, &self.lease_id, Some(&self.to), offer, value)
            .await?;
        context.answer(&answer)?;
        Ok(Exit::Done)
    }
}
