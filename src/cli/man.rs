//! `tenure man`: writes manual pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};

use super::{Exit, Failure, output::Output};

/// Print the manual page, or write the pages of all commands to a directory.
#[derive(Clone, Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages, one file per command
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl ManArgs {
    pub(super) fn run(&self, tenure: Command, output: &Output) -> Result<Exit, Failure> {
        match &self.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir)
                    .and_then(|()| clap_mangen::generate_to(tenure, dir))
                    .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(tenure).render(&mut page)?;
                output.text(&String::from_utf8_lossy(&page))?;
            }
        }
        Ok(Exit::Done)
    }
}
