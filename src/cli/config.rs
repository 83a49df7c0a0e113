//! `tenure config`: checks and shows the server's settings.

use clap::{Args, Subcommand};

use super::{Exit, Failure, args::SettingsArgs, output::Output};
use crate::{
    access::Access,
    clock::{Clock as _, SystemClock},
};

/// Check and show the server's settings.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum ConfigCommand {
    /// Report all faults in the settings and in the files that they name; exit code 78 if there are any
    Check(SettingsArgs),
    /// Print the effective settings as TOML
    Show {
        #[command(flatten)]
        settings: SettingsArgs,
        /// Show which layer each value comes from
        #[arg(long)]
        origin: bool,
    },
}

impl ConfigArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        match &self.command {
            ConfigCommand::Check(settings) => {
                let loaded = settings.load()?;
                loaded.check_files()?;
                let file = &loaded.settings.auth.file;
                if !file.as_os_str().is_empty() {
                    Access::read(file, SystemClock::new().wall_ms())?;
                }
                output.text("ok\n")?;
            }
            ConfigCommand::Show { settings, origin } => {
                output.text(&settings.load()?.to_toml(*origin))?;
            }
        }
        Ok(Exit::Done)
    }
}
