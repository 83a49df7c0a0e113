//! `tenure audit`: checks the files of an audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Exit, Failure, Output};
use crate::telemetry::audit::{ChainFault, Head, verify};

/// Check the files of an audit log
#[derive(Clone, Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    Verify(VerifyArgs),
}

/// Check that no line of an audit log was changed, removed, inserted or moved
#[derive(Clone, Debug, Args)]
#[command(
    long_about = "Check that no line of an audit log was changed, removed, inserted or moved.\n\n\
        Each line contains the digest of the line before it. The command follows this chain over all \
        files, in the order of their line numbers. It prints the numbers of the first and of the last \
        line, and the digest of the last. It fails with exit code 65 at the first line that does not \
        fit. A changed line shows at the line after it. If the end was cut off, or all lines from some \
        line on were written anew, the rest is a sound chain: name a digest from the coordinator's \
        log (`audit log head`) with --head to detect that."
)]
struct VerifyArgs {
    /// Files of one audit log, with the rotated ones, in any order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Number and digest of a line, from the coordinator's log: the chain must contain it
    #[arg(long, value_name = "SEQ:HASH")]
    head: Option<Head>,
}

impl AuditArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let Action::Verify(VerifyArgs { files, head }) = &self.action;
        let found = verify(files, *head).map_err(|fault| match fault {
            ChainFault::Io { .. } => Failure::Other(fault.into()),
            ChainFault::Line { .. } | ChainFault::Head(_) => Failure::Damaged(fault.to_string()),
        })?;
        let rows = [
            ("files", found.files.to_string()),
            ("lines", found.lines.to_string()),
            ("first", found.first.to_string()),
            ("head", found.head.clone()),
            ("lost", found.lost.to_string()),
            ("torn", found.torn.to_string()),
        ];
        output.record(&found, &rows.map(|(name, value)| (name.to_owned(), value)))?;
        Ok(Exit::Done)
    }
}
