//! `tenure access`: writes, checks and explains the file of principals. No server is asked.

mod can;
mod check;
mod file;
mod init;

use clap::{Args, Subcommand};

use super::{Exit, Failure, output::Output};

/// Write, check and explain the file of principals: who may call a server, and what each may do.
#[derive(Clone, Debug, Args)]
pub struct AccessArgs {
    #[command(subcommand)]
    command: AccessCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum AccessCommand {
    Init(init::InitArgs),
    Check(check::CheckArgs),
    Can(can::CanArgs),
}

impl AccessArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        match &self.command {
            AccessCommand::Init(args) => args.run(output),
            AccessCommand::Check(args) => args.run(output),
            AccessCommand::Can(args) => args.run(output),
        }
    }
}
