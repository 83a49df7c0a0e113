//! `tenure revoke`: ends a tenure for its holder.

use clap::Args;

use super::{Context, Exit, Failure, output::talk};

/// End the tenure of whoever holds a key.
///
/// The holder is told nothing new from now on, and the key is free when its last promise ran out.
#[derive(Clone, Debug, Args)]
pub struct RevokeArgs {
    /// The key
    key: String,
    /// Why; it stands in the event
    #[arg(long)]
    reason: String,
    /// Do not wait for the holder's last promise: it may go on believing that it holds the key, and
    /// only its token, which is outdated at once, keeps it from doing harm
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
