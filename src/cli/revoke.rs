//! `tenure revoke`: ends the tenure of a lease's holder.

use clap::Args;

use super::{Context, Exit, Failure, output::talk};

/// Revoke the lease of a key, whichever owner holds it.
///
/// The holder's heartbeats no longer extend the lease. The key is free when the last promise to the holder has ended.
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// Key of the lease
    key: String,
    /// Reason, recorded in the event
    #[arg(long)]
    reason: String,
    /// Do not wait for the last promise to end: the holder may still believe that it holds the key, and
    /// only resources that check its token, which is outdated at once, stop it from doing harm
    #[arg(long)]
    immediately: bool,
}

impl RevokeArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let answer = context.client.revoke(&self.key, &self.reason, self.immediately).await?;
        context.answer(&answer)?;
        if self.immediately {
            talk("the holder may not know yet; resources must check its token");
        }
        Ok(Exit::Done)
    }
}
