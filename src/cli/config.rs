//! `tenure config`: what the settings are, and what is wrong with them.

use clap::{Args, Subcommand};

use super::{Exit, Failure, args::SettingsArgs, output::Output};

/// Check and show the server's settings.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ConfigCommand {
    /// Name every fault of every layer, and of the files that are named there; exit code 78 when there is one
    Check(SettingsArgs),
    /// Print the settings that hold, as TOML
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Name the layer that each value came from
        #[arg(long)]
        origin: bool,
    },
}

impl ConfigArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        match &self.command {
            ConfigCommand::Check(settings) => {
                settings.load()?.check_files()?;
                output.text("ok\n")?;
            }
            ConfigCommand::Show { settings, origin } => {
                output.text(&settings.load()?.to_toml(*origin))?;
            }
        }
        Ok(Exit::Done)
    }
}
