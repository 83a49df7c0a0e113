//! What a line says of a call.

use std::{net::SocketAddr, sync::Arc};

use serde::Serialize;

/// The principal that a call acts as. The check of credentials puts it into the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acting(pub Arc<str>);

/// What a call is about. A handler's body puts it into the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Key(String),
    Prefix(String),
    Owner(String),
    Pool(String),
}

/// What is ordered and why, where the path and the subject do not tell it. A handler's body puts it into the request's
/// extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordered {
    pub action: Option<String>,
    pub reason: Option<String>,
}

/// Why a call is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditEvent {
    /// It was turned away, because of where it came from or who made it.
    Refused,
    /// It reads what all callers hold.
    Read,
    /// It is an administrator's order that is about to be carried out.
    Intent,
    /// It is an administrator's order, whether or not it succeeded.
    Change,
}

/// Calls of one principal for which one line stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Many {
    pub event: AuditEvent,
    pub principal: Option<Arc<str>>,
    pub count: u64,
    /// When the first and the last of them were answered.
    pub since_ms: u64,
    pub until_ms: u64,
}

/// A call, as its line shows it.
#[derive(Clone, Debug, Serialize)]
pub struct AuditEntry {
    pub event: AuditEvent,
    pub principal: Option<Arc<str>>,
    /// The address of the caller. For a forwarded call, as the node that forwarded it saw it.
    pub peer: Option<String>,
    pub method: String,
    /// The path without secrets, and without the query.
    pub path: String,
    /// What the call does.
    pub verb: &'static str,
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The reason that the caller gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The code of the problem document.
    pub code: Option<&'static str>,
    /// The status of the answer. `None`: the caller left before there was one.
    pub status: Option<u16>,
    /// The address of the node that forwarded the call.
    pub forwarded_by: Option<SocketAddr>,
}

impl AuditEntry {
    /// Says what is ordered and why.
    pub fn orders(&mut self, ordered: &Ordered) {
        self.action = ordered.action.as_deref().map(bounded);
        self.reason = ordered.reason.as_deref().map(bounded);
    }

    /// Says what the call is about.
    pub fn about(&mut self, subject: &Subject) {
        match subject {
            Subject::Key(key) => self.key = Some(bounded(key)),
            Subject::Prefix(prefix) => self.prefix = Some(bounded(prefix)),
            Subject::Owner(owner) => self.owner = Some(bounded(owner)),
            Subject::Pool(pool) => self.pool = Some(bounded(pool)),
        }
    }
}

/// The longest text of a call that a line shows, in bytes. A refused call may name longer ones.
const MAX_TEXT_BYTES: usize = 1024;

/// The beginning of a text that a caller chose.
#[must_use]
pub fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
