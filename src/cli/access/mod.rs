//! `tenure access`: writes, checks and explains the file of principals, for which no server is asked; and changes the
//! revocation list, which a server stores.

mod can;
mod check;
mod file;
mod init;
mod revoke;

use clap::{Args, Subcommand};

use super::{Context, Exit, Failure, output::Output};

/// Write, check and explain the file of principals: who may call a server, and what each may do; and revoke.
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
    Revoke(revoke::RevokeArgs),
    Unrevoke(revoke::UnrevokeArgs),
    List(revoke::ListArgs),
}

impl AccessArgs {
    /// `context` has the server, for the commands that ask one.
    pub(super) async fn run(
        self,
        output: &Output,
        context: impl FnOnce() -> Result<Context, Failure>,
    ) -> Result<Exit, Failure> {
        match self.command {
            AccessCommand::Init(args) => args.run(output),
            AccessCommand::Check(args) => args.run(output),
            AccessCommand::Can(args) => args.run(output),
            AccessCommand::Revoke(args) => args.run(&context()?).await,
            AccessCommand::Unrevoke(args) => args.run(&context()?).await,
            AccessCommand::List(args) => args.run(&context()?).await,
        }
    }
}
