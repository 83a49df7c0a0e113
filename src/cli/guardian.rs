//! `tenure guardian` and `tenure guarded`: the processes between an agent and the programs that it runs.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{Exit, Failure, output::talk};
use crate::worker::guardian;

/// Supervise the programs of an agent (started by `run`, `work` and `guard`).
#[derive(Clone, Debug, Args)]
pub struct GuardianArgs {
    /// Socket on which the agent listens
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Mark in the environment of its programs
    #[arg(long)]
    mark: String,
}

impl GuardianArgs {
    pub(super) async fn run(self) -> Result<Exit, Failure> {
        guardian::serve(&self.socket, self.mark).await.map_err(anyhow::Error::from)?;
        Ok(Exit::Done)
    }
}

/// Become a program that ends when its guardian ends.
#[derive(Clone, Debug, Args)]
pub struct GuardedArgs {
    /// Process id of the guardian
    guardian: u32,
    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The exit code that shells use if there is no such program.
const MISSING: u8 = 127;
/// The exit code that shells use if the program cannot be run.
const UNABLE: u8 = 126;

impl GuardedArgs {
    /// Returns only on failure.
    pub(super) fn run(self) -> u8 {
        let error = guardian::become_program(self.guardian, &self.command);
        talk(&format!("cannot run {}: {error}", self.command[0].display()));
        if error.kind() == std::io::ErrorKind::NotFound { MISSING } else { UNABLE }
    }
}
