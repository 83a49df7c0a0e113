//! `tenure ready`: the probe of containers and scripts.

use std::time::Duration;

use clap::Args;

use super::{
    Context, Exit, Failure,
    args::duration,
    output::{dash, shown},
};
use crate::client::Readiness;

/// Check whether the server answers, and whether traffic may be sent to it: exit code 75 if not.
#[derive(Clone, Debug, Args)]
pub struct ReadyArgs {
    /// Maximum time to wait for the answer
    #[arg(long, value_parser = duration, value_name = "DURATION", default_value = "2s")]
    timeout: Duration,
}

impl ReadyArgs {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let found = context.client.ready(self.timeout).await?;
        context.output.record(&found, &rows(&found))?;
        Ok(if found.ready { Exit::Done } else { Exit::TryAgain })
    }
}

fn rows(found: &Readiness) -> Vec<(String, String)> {
    let reasons: Vec<String> = found.reasons.iter().map(|reason| shown(reason)).collect();
    let reasons = if reasons.is_empty() { dash() } else { reasons.join("; ") };
    let ready = if found.ready { "yes" } else { "no" };
    vec![("ready".to_owned(), ready.to_owned()), ("reasons".to_owned(), reasons)]
}
