//! The errors of the client's calls.

use std::time::Duration;

use reqwest::Url;

use crate::{
    api::{Code, reading::Problem},
    tls::{self, TlsError},
};

/// Where a user of this client sets another certificate authority.
const CA: &str = "--ca, TENURE_CA or ClientBuilder::ca";
/// How many characters an error quotes of an answer that is not JSON.
const QUOTED: usize = 200;

/// Why a call failed, and whether the server may have carried it out.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the server cannot be used.
    #[error("the server's address {url:?}: {problem}")]
    Address {
        /// The address that cannot be used.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The address of the proxy cannot be used. It may hold a password, and is not shown.
    #[error("the proxy's address {problem}")]
    Proxy {
        /// What is wrong with it.
        problem: String,
    },
    /// The caller's token cannot be used. It is not shown.
    #[error("the token {problem}")]
    Token {
        /// What is wrong with it.
        problem: String,
    },
    /// TLS cannot be set up, so that no server can be verified.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No complete answer came from the server.
    #[error("{}{}", transport(.source), if *.sent { "; the call may have been carried out" } else { "" })]
    Unreachable {
        /// Whether the server may have received the call.
        sent: bool,
        /// The error of the HTTP client.
        source: reqwest::Error,
    },
    /// The server did not begin to answer a request for events. Such a request has no effect.
    #[error("no answer in time from {server}: it was silent for {} ms", .silence.as_millis())]
    NoAnswer {
        /// The server's scheme, host and port.
        server: String,
        /// How long the client waited.
        silence: Duration,
    },
    /// Another process opened a session under the same owner, and is the member of the pool now.
    #[error("another process works under the owner name {owner:?}, and took the place of this one")]
    Replaced {
        /// The owner of both sessions.
        owner: String,
    },
    /// The server refused the call, for this reason.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The answer is neither a result nor a problem document of tenure's API.
    #[error("status {status} with an answer that is not tenure's ({problem}): {body}")]
    NotUnderstood {
        /// The HTTP status of the answer.
        status: u16,
        /// What was wrong with it.
        problem: String,
        /// The beginning of the body.
        body: String,
    },
}

impl ClientError {
    pub(super) fn from_transport(source: reqwest::Error) -> Self {
        Self::Unreachable { sent: !source.is_connect() && !source.is_builder(), source }
    }

    pub(super) fn no_answer(server: &Url, silence: Duration) -> Self {
        Self::NoAnswer { server: origin(server), silence }
    }

    pub(super) fn refused(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Problem>(body) {
            Ok(problem) if !problem.code.is_empty() => {
                Self::Refused(Box::new(Problem { status, ..problem }))
            }
            _ => Self::NotUnderstood {
                status,
                problem: "no problem document".into(),
                body: quote(body),
            },
        }
    }

    pub(super) fn not_understood(problem: &str) -> Self {
        Self::NotUnderstood { status: 200, problem: problem.to_owned(), body: String::new() }
    }

    pub(super) fn unknown_key(key: &str) -> Self {
        Self::Refused(Box::new(Problem {
            status: Code::UnknownKey.status(),
            code: Code::UnknownKey.as_str().into(),
            title: Code::UnknownKey.title().into(),
            detail: Some(format!("the key {key:?} was never seen")),
            ..Problem::default()
        }))
    }

    pub(super) fn lease_lost(key: &str, reason: &str) -> Self {
        Self::Refused(Box::new(Problem {
            status: Code::LeaseLost.status(),
            code: Code::LeaseLost.as_str().into(),
            title: Code::LeaseLost.title().into(),
            detail: Some(format!("the lease on {key:?} is over")),
            reason: Some(reason.into()),
            ..Problem::default()
        }))
    }

    /// Whether the call may have been carried out although it failed.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unreachable { sent: true, .. })
    }

    /// Whether the server does not know the caller, or does not allow it the call. Nothing was carried out, and nothing
    /// that the caller holds is over because of it.
    #[must_use]
    pub fn is_no_permission(&self) -> bool {
        self.problem().is_some_and(|problem| matches!(problem.status, 401 | 403))
    }

    /// The code of the server's refusal, if this version knows it.
    pub(super) fn code(&self) -> Option<Code> {
        self.problem().and_then(Problem::known)
    }

    /// The server's problem document, if it refused.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }
}

/// Names the server of the call and the root cause, which is what a person needs ("connection refused").
fn transport(error: &reqwest::Error) -> String {
    let cause = tls::explain(error, CA);
    let server = error.url().map_or("the server".into(), origin);
    let failed = match error {
        _ if error.is_connect() => "cannot reach",
        _ if error.is_timeout() => "no answer in time from",
        _ => "no answer from",
    };
    format!("{failed} {server}: {cause}")
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// The beginning of a body, for an error message.
pub(super) fn quote(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(QUOTED).collect()
}
