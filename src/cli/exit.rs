//! Exit codes: the only place where a failure becomes a number.

use std::{fmt::Write as _, io, process::ExitCode};

use crate::{api::Code, client::ClientError, settings::Faults};

/// The exit code of the process. Most numbers come from `sysexits.h`. A number that shells use too has the same meaning
/// here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// A failure without a code of its own, or something that needs a person.
    Other,
    /// The command line or the request is wrong. Repeating it does not help.
    Usage,
    /// The data that a command checked is damaged.
    Data,
    /// There is no such key, session or pool.
    Unknown,
    /// The server cannot be reached, or what answers is not tenure.
    Unreachable,
    /// The lease was not acquired, or is not the caller's.
    NotAcquired,
    /// The lease was lost while the command ran.
    Lost,
    /// The server asks the caller to try again later.
    TryAgain,
    /// The server does not know the caller, or does not allow it the call.
    Forbidden,
    Config,
}

impl Exit {
    /// Every code, in ascending order.
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::Other,
        Self::Usage,
        Self::Data,
        Self::Unknown,
        Self::Unreachable,
        Self::NotAcquired,
        Self::Lost,
        Self::TryAgain,
        Self::Forbidden,
        Self::Config,
    ];

    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Other => 1,
            Self::Usage => 64,
            Self::Data => 65,
            Self::Unknown => 66,
            Self::Unreachable => 69,
            Self::NotAcquired => 73,
            Self::Lost => 74,
            Self::TryAgain => 75,
            Self::Forbidden => 77,
            Self::Config => 78,
        }
    }

    /// What the number means, for the help text.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Other => {
                "any other failure; `status`: something needs a person; `store verify`: a check failed"
            }
            Self::Usage => "usage: the command line or the request is wrong",
            Self::Data => "`audit verify`: the chain of lines is broken",
            Self::Unknown => "no such key, session, pool or path",
            Self::Unreachable => "the server cannot be reached",
            Self::NotAcquired => {
                "not acquired, or not the caller's lease; `check`: the token is not current"
            }
            Self::Lost => "the lease was lost while the command ran",
            Self::TryAgain => {
                "try again later; `ready`: not ready; `watch --timeout`: the time ran out"
            }
            Self::Forbidden => "the server does not know the caller, or does not allow it this",
            Self::Config => "the configuration has faults",
        }
    }

    /// The table for the help text.
    pub(super) fn table() -> String {
        let mut text = String::from("Exit codes:\n");
        for exit in Self::ALL {
            let _ = writeln!(text, "  {:>2}  {}", exit.code(), exit.meaning());
        }
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The server refused the call, or cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the configuration has faults:\n{0}")]
    Config(#[from] Faults),
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The data that the command checked is damaged.
    #[error("{0}")]
    Damaged(String),
    /// The caller's timeout elapsed.
    #[error("{0}")]
    TimedOut(String),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    /// The output could not be written. It had a secret that nobody can learn now, so the command tried to end the lease or
    /// session that the secret is for. `outcome` says whether it did.
    #[error("cannot write the output: {error}; {outcome}")]
    Unprinted { error: io::Error, outcome: &'static str },
    /// Anything else.
    #[error("{}", chain(.0))]
    Other(#[from] anyhow::Error),
}

/// An error with its causes. A cause that the text before it ends with is not repeated.
fn chain(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .reduce(
            |text, cause| {
                if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
            },
        )
        .unwrap_or_default()
}

impl Failure {
    /// The exit code of this failure.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Client(error) => of_client(error),
            Self::Config(_) => Exit::Config,
            Self::Usage(_) => Exit::Usage,
            Self::Damaged(_) => Exit::Data,
            Self::TimedOut(_) => Exit::TryAgain,
            // The reader of the output has read enough: `tenure ls | head` did not fail.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Output(_) | Self::Unprinted { .. } | Self::Other(_) => Exit::Other,
        }
    }
}

/// The refusal with the advice that this command can follow, where the server's is for callers of its API.
pub(super) fn advised(error: ClientError, held_by_you: &str) -> ClientError {
    let ClientError::Refused(mut problem) = error else { return error };
    let advice = match problem.known() {
        Some(Code::HeldByYou) => held_by_you,
        _ => return ClientError::Refused(problem),
    };
    if let Some(detail) = &mut problem.detail {
        // The fact ends with the key in quotation marks. A key may contain a semicolon.
        let end = detail.rfind('"').map(|at| at + 1).or_else(|| detail.find(';'));
        detail.truncate(end.unwrap_or(detail.len()));
        *detail = format!("{detail}; {advice}");
    }
    ClientError::Refused(problem)
}

fn of_client(error: &ClientError) -> Exit {
    match error {
        ClientError::Address { .. }
        | ClientError::Proxy { .. }
        | ClientError::Token { .. }
        | ClientError::Tls(_) => Exit::Usage,
        ClientError::Unreachable { .. }
        | ClientError::NoAnswer { .. }
        | ClientError::NotUnderstood { .. } => Exit::Unreachable,
        ClientError::Replaced { .. } => Exit::Lost,
        ClientError::Refused(problem) => match problem.status {
            401 | 403 => Exit::Forbidden,
            409 | 423 => Exit::NotAcquired,
            429 | 503 => Exit::TryAgain,
            400 | 413 | 415 | 421 | 422 => Exit::Usage,
            404 => Exit::Unknown,
            _ if problem.retryable => Exit::TryAgain,
            _ => Exit::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Problem;

    fn refused(status: u16, retryable: bool) -> u8 {
        let problem = Problem { status, retryable, ..Problem::default() };
        Failure::Client(ClientError::Refused(Box::new(problem))).exit().code()
    }

    #[test]
    fn every_refusal_has_its_code() {
        assert_eq!([409, 423].map(|status| refused(status, true)), [73, 73]);
        assert_eq!([429, 503].map(|status| refused(status, true)), [75, 75]);
        assert_eq!([400, 413, 421, 422].map(|status| refused(status, false)), [64; 4]);
        assert_eq!([401, 403].map(|status| refused(status, false)), [77, 77]);
        assert_eq!((refused(500, true), refused(500, false), refused(404, false)), (75, 1, 66));
    }

    #[test]
    fn the_codes_differ_ascend_and_keep_away_from_the_shells() {
        let codes = Exit::ALL.map(Exit::code);
        assert!(codes.is_sorted_by(|a, b| a < b));
        assert!(codes.iter().all(|&code| code < 126 && code != 2));
        let table = Exit::table();
        assert!(codes.iter().all(|code| table.contains(&format!("{code}  "))), "{table}");
    }

    #[test]
    fn advice_for_the_command_takes_the_place_of_that_for_callers_of_the_api() {
        for key in ["a", "a; b", "a\"; b"] {
            let detail = format!(
                "this owner already holds {key:?}; with reclaim: true, a new tenure replaces that one"
            );
            let code = "held-by-you".into();
            let problem = Problem { detail: Some(detail), code, ..Problem::default() };
            let said = advised(ClientError::Refused(Box::new(problem)), "wait").to_string();
            let whole = format!("this owner already holds {key:?}; wait");
            assert!(said.contains(&whole) && !said.contains("reclaim"), "{said}");
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::other("disk full");
        let twice = anyhow::Error::new(cause()).context("cannot write x: disk full");
        let both = anyhow::Error::new(cause()).context("cannot write x");
        for error in [twice, both] {
            assert_eq!(Failure::from(error).to_string(), "cannot write x: disk full");
        }
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(closed).exit(), Exit::Done);
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).exit(), Exit::Other);
    }
}
