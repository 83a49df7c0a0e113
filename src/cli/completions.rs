//! `tenure completions`: what a shell needs to complete our command line.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Exit, Failure, output::Output};

/// Print the completion script of a shell.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tenure", &mut script);
        output.text(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
