//! Why a fence failed: the public reason, and the details for people.

use std::{fmt, io, os::unix::process::ExitStatusExt, process::ExitStatus};

/// The highest number of characters of an external text in a log line.
const EXCERPT: usize = 512;

/// The kind of a failure. It quotes nothing that a program, a server or a library said, because events and listings
/// show it to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// This coordinator must not connect to it.
    NotAllowed,
    /// The name has no address.
    UnknownName,
    /// The connection was refused, as no process listens there.
    Refused,
    /// The connection failed for another reason, or broke.
    CannotConnect,
    /// There was no answer in time.
    TimedOut,
    /// The answer had this HTTP status.
    Status(u16),
    /// There was an answer, but it does not confirm.
    Unconfirmed,
    /// The program could not be started.
    CannotStart,
    /// The program ended with this status.
    Exit(i32),
    /// The program was killed by this signal.
    Killed(i32),
    /// The plugin's code panicked, so the try failed.
    Panicked,
    /// The reported progress did not change.
    Unchanged,
    /// It failed; no more is known.
    Failed,
}

impl FailureKind {
    /// The failure of a program that did not end with exit status 0.
    #[must_use]
    pub fn of_exit(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, Some(signal)) => Self::Killed(signal),
            (None, None) => Self::Failed,
        }
    }

    /// Why a connection failed or broke, judged by the first system error among the causes of this error.
    #[must_use]
    pub fn of_connection(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(io::ErrorKind::ConnectionRefused) => return Self::Refused,
                Some(io::ErrorKind::TimedOut) => return Self::TimedOut,
                _ => cause = error.source(),
            }
        }
        Self::CannotConnect
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "not allowed",
            Self::UnknownName => "unknown name",
            Self::Refused => "connection refused",
            Self::CannotConnect => "cannot connect",
            Self::TimedOut => "timed out",
            Self::Status(status) => return write!(f, "HTTP status {status}"),
            Self::Unconfirmed => "not confirmed",
            Self::CannotStart => "cannot be started",
            Self::Exit(status) => return write!(f, "exit status {status}"),
            Self::Killed(signal) => return write!(f, "killed by signal {signal}"),
            Self::Panicked => "panicked",
            Self::Unchanged => "no progress",
            Self::Failed => "failed",
        })
    }
}

/// Why a fence was not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct FenceError {
    /// The public part: events and listings show it.
    pub kind: FailureKind,
    /// Details for people. They may quote the program or server, and go only to the log.
    pub detail: String,
    /// Another try would end the same way.
    pub permanent: bool,
}

impl FenceError {
    /// A failure after which another try may succeed.
    pub fn new(detail: impl fmt::Display) -> Self {
        Self::of(FailureKind::Failed, detail)
    }

    /// A failure that no other try can change: the order fails at once.
    pub fn permanent(detail: impl fmt::Display) -> Self {
        Self { permanent: true, ..Self::new(detail) }
    }

    /// A failure of a known kind, after which another try may succeed.
    pub fn of(kind: FailureKind, detail: impl fmt::Display) -> Self {
        Self { kind, detail: detail.to_string(), permanent: false }
    }
}

/// The beginning of what a program, a server or a library said, for one line of the log. The log escapes it.
#[must_use]
pub fn excerpt(text: &str) -> &str {
    let end = text.char_indices().nth(EXCERPT).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// An error with all its causes.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
