//! `tenure forget`: removes free keys that are no longer needed.

use clap::Args;

use super::{Context, Exit, Failure};
use crate::client::Forgot;

/// Forget free keys with a prefix.
///
/// The store keeps a record of every key that was ever used, so that its tokens never go back. Keys with a new name
/// for each job would fill the store in the end. The record of a forgotten key is removed five minutes later, unless
/// the key is granted before. Later tokens of the key are still above all earlier ones. Its value is lost, and its
/// events are numbered from the start.
#[derive(Clone, Debug, Args)]
pub struct ForgetArgs {
    /// Prefix of the keys
    #[arg(long)]
    prefix: String,
    /// Reason, recorded in the events
    #[arg(long)]
    reason: String,
}

impl ForgetArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut all = Forgot::default();
        let mut after = None;
        loop {
            let client = &context.client;
            let some = client.forget(&self.prefix, after.as_deref(), &self.reason).await?;
            all.forgotten += some.forgotten;
            all.left += some.left;
            after = some.next;
            if after.is_none() {
                break;
            }
        }
        context.answer(&serde_json::json!(all))?;
        Ok(Exit::Done)
    }
}
