//! `tenure runbook`: what to do about an alert.

use std::ffi::OsString;

use clap::Args;

use super::{Exit, Failure, output::Output};
use crate::telemetry::runbook;

/// Print the runbook, or its section about one alert.
///
/// `tenure help runbook NAME` does the same. A coordinator serves it at /docs/runbook/NAME.
#[derive(Clone, Debug, Args)]
pub struct RunbookArgs {
    /// Name of the alert, such as TenureChurnHigh [default: all of them]
    #[arg(value_name = "NAME")]
    alert: Option<String>,
}

impl RunbookArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        output.text(match &self.alert {
            None => runbook::whole(),
            Some(alert) => section(alert)?,
        })?;
        Ok(Exit::Done)
    }
}

fn section(alert: &str) -> Result<&'static str, Failure> {
    let unknown = || {
        let names: Vec<_> = runbook::names().collect();
        Failure::Usage(format!("the runbook has no section {alert:?}; it has {}", names.join(", ")))
    };
    runbook::section(alert).ok_or_else(unknown)
}

/// Reads `tenure help runbook NAME` as `tenure runbook NAME`: help about a command has no place for a name.
pub(super) fn without_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let own: Vec<_> = arguments.iter().take_while(|argument| *argument != "--").collect();
    let asked = |words: &[&OsString]| words[0] == "help" && words[1] == "runbook";
    if let Some(at) = own.windows(3).position(asked) {
        arguments.remove(at);
    }
    arguments
}
