//! `tenure transfer`: hands a lease over to another owner.

use std::time::Duration;

use clap::Args;

use super::{
    Context, Exit, Failure,
    args::{duration, millis, secret},
};
use crate::api::TransferBody;

/// Hand a lease over to another owner.
///
/// Without --to, the first waiter gets the lease at once. With --to, the key is kept for that owner until it acquires
/// the lease or the offer lapses.
#[derive(Clone, Debug, Args)]
pub struct TransferArgs {
    /// Key of the lease
    key: String,
    /// Secret that `acquire` printed; better as `@FILE` or `-` (standard input): others can see arguments
    #[arg(long, env = "TENURE_LEASE_ID", hide_env_values = true, value_parser = secret)]
    lease_id: String,
    /// Next owner [default: the first waiter]
    #[arg(long, value_name = "OWNER")]
    to: Option<String>,
    /// How long the key is kept for that owner
    #[arg(long, value_parser = duration, value_name = "DURATION", requires = "to")]
    offer: Option<Duration>,
    /// Value to store with the key; the next owner can read it
    #[arg(long)]
    value: Option<String>,
    /// Why the lease is handed over, for people; events and the history show it
    #[arg(long)]
    reason: Option<String>,
}

impl TransferArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Self { key, lease_id, to, offer, value, reason } = self;
        let offer_ms = offer.map(millis);
        let body = TransferBody { key, lease_id, to, offer_ms, value, reason };
        let answer = context.client.transfer_with(&body).await?;
        context.answer(&answer)?;
        Ok(Exit::Done)
    }
}
