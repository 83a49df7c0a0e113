//! `tenure config`: checks and shows the server's settings.

use std::path::Path;

use clap::{Args, Subcommand};

use super::{
    Exit, Failure,
    args::SettingsArgs,
    output::{Output, shown},
};
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

/// What was checked, in one line.
fn checked(file: Option<&Path>, policies: usize, plugins: usize) -> String {
    let file = file.map_or_else(|| "no file".into(), Path::to_string_lossy);
    let count = |count: usize, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    let policies = count(policies, "policy", "policies");
    let plugins = count(plugins, "plugin", "plugins");
    format!("ok: {}, {policies}, {plugins}\n", shown(&file))
}

impl ConfigArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        match &self.command {
            ConfigCommand::Check(settings) => {
                let loaded = settings.load()?;
                loaded.check_files()?;
                let file = &loaded.settings.auth.file;
                if !file.as_os_str().is_empty() {
                    Access::judge(file, SystemClock::new().wall_ms())?;
                }
                let (policies, plugins) = (&loaded.settings.policies, &loaded.settings.plugins);
                let file = settings.config.as_deref();
                output.text(&checked(file, policies.len(), plugins.len()))?;
            }
            ConfigCommand::Show { settings, origin } => {
                output.text(&settings.load()?.to_toml(*origin))?;
            }
        }
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_what_it_checked() {
        let file = Path::new("a/b.toml");
        assert_eq!(checked(Some(file), 0, 1), "ok: a/b.toml, 0 policies, 1 plugin\n");
        assert_eq!(checked(None, 1, 2), "ok: no file, 1 policy, 2 plugins\n");
    }
}
