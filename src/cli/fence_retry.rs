//! `tenure fence-retry`: runs fences that failed for good once more.

use clap::{ArgGroup, Args};

use super::{Context, Exit, Failure, args::name, output::talk};
use crate::api::FenceRetryBody;

/// Run failed fences once more: of a key, of all keys with a prefix, or of a plugin.
///
/// The command does not wait for their outcome: `tenure status` lists what failed again. Use it after the plugin, or what it
/// calls, was repaired. A reload of the settings has the same effect.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("which").required(true).multiple(true).args(["key", "prefix", "plugin"])))]
pub struct FenceRetryArgs {
    /// Key whose fence failed
    #[arg(value_parser = name)]
    key: Option<String>,
    /// All keys that begin with this prefix
    #[arg(long, conflicts_with = "key")]
    prefix: Option<String>,
    /// Only fences of this plugin
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,
    /// Reason, for the audit log
    #[arg(long)]
    reason: String,
}

impl FenceRetryArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let Self { key, prefix, plugin, reason } = self;
        let body = FenceRetryBody { key, prefix, plugin, reason };
        let done = context.client.retry_fences(&body).await?;
        if done.more > 0 {
            talk(&format!(
                "{} more keys have failed fences: repeat the command when these are fenced",
                done.more
            ));
        }
        context.output.record(&done, &[("retried".to_owned(), done.retried.to_string())])?;
        Ok(Exit::Done)
    }
}
