//! The file that a command is about.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    access::Access,
    cli::{Failure, SettingsArgs},
    clock::{Clock as _, SystemClock},
};

/// The file where neither the command nor the settings name one.
const DEFAULT_FILE: &str = "/etc/tenure/access.toml";

/// Which file the command is about.
#[derive(Clone, Debug, Args)]
pub(super) struct Settings {
    /// TOML file with settings, whose auth.file is used where no file is named
    #[arg(long, value_name = "FILE", env = "TENURE_CONFIG")]
    pub(super) config: Option<PathBuf>,
}

impl Settings {
    /// The named file, that of the settings, or the default.
    pub(super) fn file(&self, named: Option<&Path>) -> Result<PathBuf, Failure> {
        if let Some(named) = named {
            return Ok(named.to_owned());
        }
        let args = SettingsArgs { config: self.config.clone(), ..SettingsArgs::default() };
        let file = args.load()?.settings.auth.file;
        Ok(if file.as_os_str().is_empty() { DEFAULT_FILE.into() } else { file })
    }
}

pub(super) fn now_ms() -> u64 {
    SystemClock::new().wall_ms()
}

pub(super) fn read(file: &Path) -> Result<Access, Failure> {
    Ok(Access::judge(file, now_ms())?)
}
