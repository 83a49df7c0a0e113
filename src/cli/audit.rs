//! `tenure audit`: checks the files of an audit log.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Exit, Failure, Output};
use crate::telemetry::audit::{ChainFault, Checks, Head, Verified, verify};

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
        Each line contains the digest of the line before it. The calls of administrators, in FILE.changes, \
        are a chain of their own. The command follows each chain over its files, in the order of their line \
        numbers. It prints the numbers of the first and of the last line, and the digest of the last. It fails \
        with exit code 65 at the first line that does not fit, and at a line that says that lines before it are \
        gone. A changed line shows at the line after it. If the end was cut off, or all lines from some \
        line on were written anew, the rest is a sound chain: name a digest from the coordinator's \
        log (`audit log head`) with --head to detect that. With --from 1, files that lack their beginning are \
        refused."
)]
struct VerifyArgs {
    /// Files of one audit log, with the rotated ones, in any order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Number and digest of a line, from the coordinator's log: a chain must contain it. May be repeated
    #[arg(long, value_name = "SEQ:HASH")]
    head: Vec<Head>,
    /// Number of a line with which each chain must begin, or that comes after its beginning. With 1, the files must have
    /// every line that was ever written. Gaps up to this line are accepted
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..))]
    from: Option<u64>,
}

impl AuditArgs {
    pub(super) fn run(&self, output: &Output) -> Result<Exit, Failure> {
        let Action::Verify(VerifyArgs { files, head, from }) = &self.action;
        let checks = Checks { known: head.clone(), from: *from };
        let found = verify(files, &checks).map_err(|fault| match fault {
            ChainFault::Io { .. } => Failure::Other(fault.into()),
            ChainFault::Line { .. } | ChainFault::Head(_) => Failure::Damaged(fault.to_string()),
        })?;
        output.record(&found, &rows(&found))?;
        Ok(Exit::Done)
    }
}

/// The rows for sound chains. Of two chains, each has its own first line and head.
fn rows(found: &Verified) -> Vec<(String, String)> {
    let mut rows = vec![
        ("files".to_owned(), found.files.to_string()),
        ("lines".to_owned(), found.lines.to_string()),
    ];
    for chain in &found.chains {
        let name = |name: &str| match found.chains.len() {
            1 => name.to_owned(),
            _ => format!("{name} ({})", chain.chain.as_str()),
        };
        rows.push((name("first"), chain.first.to_string()));
        rows.push((name("head"), chain.head.clone()));
    }
    rows.push(("lost".to_owned(), found.lost.to_string()));
    rows.push(("torn".to_owned(), found.torn.to_string()));
    rows
}
