//! `tenure fence-skip`: a key goes on without a fence that was not confirmed.

use clap::Args;

use super::{Context, Exit, Failure};

/// Strike the fences of a key that were not confirmed.
///
/// Its next owner is then granted the key although nobody knows whether the last one is shut out: look
/// before.
#[derive(Clone, Debug, Args)]
pub struct FenceSkipArgs {
    /// The key
    key: String,
    /// Why; it stands in the event
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
