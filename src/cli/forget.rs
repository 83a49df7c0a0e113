//! `tenure forget`: free keys that nobody needs any more.

use clap::Args;

use super::{Context, Exit, Failure};
use crate::client::Forgot;

/// Forget the free keys that start with a prefix.
///
/// A key is kept once it was used, so that its token never goes back. Names that are made anew for each job would fill
/// the store in the end. A forgotten key goes five minutes later, unless somebody was granted it before. Its token goes on
/// above what it was; its value and the numbers of its events do not.
#[derive(Clone, Debug, Args)]
pub struct ForgetArgs {
    /// What the keys start with
    #[arg(long)]
    prefix: String,
    /// Why; it stands in the events
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
