//! `tenure completions`: prints shell completion scripts.

use clap::{Args, Command};
use clap_complete::Shell;

use super::{Exit, Failure, output::Output};

/// Print a completion script for a shell.
///
/// The scripts for bash, zsh and fish ask `tenure` for the words at the cursor. With a server that can be reached,
/// keys, owners and pools are completed too. For other shells, the script has commands and options alone.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that will run the script
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, mut tenure: Command, output: &Output) -> Result<Exit, Failure> {
        match self.shell {
            Shell::Bash => output.text(include_str!("complete/tenure.bash"))?,
            Shell::Zsh => output.text(include_str!("complete/tenure.zsh"))?,
            Shell::Fish => output.text(include_str!("complete/tenure.fish"))?,
            shell => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut tenure, "tenure", &mut script);
                output.text(&String::from_utf8_lossy(&script))?;
            }
        }
        Ok(Exit::Done)
    }
}
