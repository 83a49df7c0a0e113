//! `tenure fence-skip`: opens a key whose fences were not confirmed.

use clap::Args;

use super::{Context, Exit, Failure};

/// Skip the failed fence of a key.
///
/// The key is then granted to the next owner, although it is unknown whether the last owner is shut out.
/// Make sure of that yourself first.
#[derive(Clone, Debug, Args)]
pub struct FenceSkipArgs {
    /// Key with unconfirmed fences
    key: String,
    /// Reason, recorded in the event
    #[arg(long)]
    reason: String,
}

impl FenceSkipArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let answer = context.client.skip_fences(&self.key, &self.reason).await?;
        context.answer(&answer)?;
        Ok(Exit::Done)
    }
}
