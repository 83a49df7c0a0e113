//! `tenure guardian` and `tenure guarded`: the processes between an agent and what it runs.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{Exit, Failure, output::talk};
use crate::worker::guardian;

/// Look after the children of an agent (started by `run`, `work` and `guard`).
#[derive(Clone, Debug, Args)]
pub struct GuardianArgs {
    /// Where the agent listens
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// What its programs are known by
    #[arg(long)]
    mark: String,
}

impl GuardianArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        guardian::serve(&self.socket, self.mark).await.map_err(anyhow::Error::from)?;
        Ok(Exit::Done)
    }
}

/// Become a program that ends when its guardian does.
#[derive(Clone, Debug, Args)]
pub struct GuardedArgs {
    /// The guardian's process id
    guardian: u32,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What shells end with when there is no such program.
const MISSING: u8 = 127;
/// What they end with when it cannot be run.
const UNABLE: u8 = 126;

impl GuardedArgs {
    /// Returns only when it failed.
    pub(super) fn run(self) -> u8 {
        let error = guardian::become_program(self.guardian, &self.command);
        talk(&format!("cannot run {}: {error}", self.command[0].display()));
        if error.kind() == std::io::ErrorKind::NotFound { MISSING } else { UNABLE }
    }
}
