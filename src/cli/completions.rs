//! `tenure completions`: prints shell completion scripts.

use clap::{Args, Command};
use clap_complete::Shell;

use super::{Exit, Failure, output::Output};

/// Print a completion script for a shell.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that will run the script
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, mut tenure: Command, output: &Output) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut tenure, "tenure", &mut script);
        output.text(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
