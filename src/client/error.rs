//! The errors of the client's calls.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LeaseView, quote};
use crate::{
    api::Code,
    tls::{self, TlsError},
};

/// Where a user of this client sets another certificate authority.
const CA: &str = "--ca, TENURE_CA or ClientBuilder::ca";

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address of the server cannot be used.
    #[error("the server's address {url:?}: {problem}")]
    Address {
        /// The address.
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
    /// TLS cannot be set up, so that no server can be verified.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There was no answer.
    #[error("{}{}", transport(.source), if *.sent { "; the call may have been carried out" } else { "" })]
    Unreachable {
        /// Whether the server may have received the call.
        sent: bool,
        /// What happened.
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("{0}")]
    Refused(Box<Problem>),
    /// The answer is not one of this protocol.
    #[error("status {status} with an answer that is not tenure's ({problem}): {body}")]
    NotUnderstood {
        /// The HTTP status.
        status: u16,
        /// What was wrong with it.
        problem: String,
        /// The beginning of the body.
        body: String,
    },
}

/// A problem document (RFC 9457) with tenure's extensions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The kind of problem, in a few words.
    pub title: String,
    /// What happened this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The stable name of the kind: `held`, `lease-lost`…
    pub code: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// When to try again, if the server knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The lease that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// Why a lease was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field that is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// How many of the keys are in which state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Value>,
    /// The session's share of its pool, if the call asked for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// How many leases of the pool the session holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by_session: Option<u64>,
}

impl Problem {
    /// Its code, if this version knows it.
    pub(super) fn known(&self) -> Option<Code> {
        Code::named(&self.code)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.detail.as_deref().unwrap_or(&self.title);
        write!(f, "{detail}")?;
        if let Some(reason) = self.reason.as_deref().filter(|reason| !detail.contains(reason)) {
            write!(f, " ({reason})")?;
        }
        write!(f, " [{}]", self.code)
    }
}

impl ClientError {
    pub(super) fn from_transport(source: reqwest::Error) -> Self {
        Self::Unreachable { sent: !source.is_connect() && !source.is_builder(), source }
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
            title: "Unknown key".into(),
            detail: Some(format!("the key {key:?} was never seen")),
            ..Problem::default()
        }))
    }

    /// Whether the call may have been carried out although it failed.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Unreachable { sent: true, .. })
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
    let server = error.url().map_or("the server".into(), |url| url.origin().ascii_serialization());
    let failed = match error {
        _ if error.is_connect() => "cannot reach",
        _ if error.is_timeout() => "no answer in time from",
        _ => "no answer from",
    };
    format!("{failed} {server}: {cause}")
}
