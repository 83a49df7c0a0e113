//! Documents as a client reads them, whatever the version of the coordinator.
//!
//! A coordinator writes each of these documents in full. A client names the fields that it works with, and keeps all
//! others as they came, so that it passes on what a newer coordinator adds. A field that an older coordinator lacks is
//! read as its default.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{problem::Code, session::Holdings};

/// The public view of a lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseView {
    /// The key.
    pub key: String,
    /// `free`, `held`, `fencing`, `cooling` or `offered`.
    pub state: String,
    /// Who holds it.
    pub owner: Option<String>,
    /// The fencing token.
    pub token: Option<u64>,
    /// How long a heartbeat keeps it.
    pub ttl_ms: Option<u64>,
    /// The time until it ends without a heartbeat.
    pub expires_in_ms: Option<u64>,
    /// When it was granted, in RFC 3339 form.
    pub acquired_at: Option<String>,
    /// The value for the next owner.
    pub value: Option<String>,
    /// How many callers wait for it.
    pub waiters: Option<u64>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A grant, with what only the holder gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The public view.
    #[serde(flatten)]
    pub lease: LeaseView,
    /// The secret that authorizes heartbeats, releases and transfers.
    pub lease_id: String,
    /// How long the lease is the caller's, counted on its own clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
}

/// The answer to an acquire of some of several keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grants {
    /// At least one.
    pub grants: Vec<Grant>,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Alive {
    /// The fencing token.
    pub token: u64,
    /// How long the lease is the caller's, counted on its own clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
    /// Notices for the holder.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Whether the token is the current holder's.
    pub current: bool,
    /// The lease.
    pub lease: Option<LeaseView>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One page of leases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leases {
    /// In the order of their keys.
    pub leases: Vec<LeaseView>,
    /// The cursor of the next page, when there is one.
    #[serde(default)]
    pub next: Option<String>,
}

/// The public view of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Its public name; its id is a secret.
    pub digest: String,
    /// Its owner.
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// The time until it ends without a heartbeat.
    #[serde(default)]
    pub expires_in_ms: Option<u64>,
    /// The leases that it keeps; none if only another node knows.
    #[serde(default)]
    pub leases: Option<Holdings>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A new session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Opened {
    /// The secret that authorizes its heartbeat and its end.
    pub id: String,
    /// How long it lives, counted on the caller's clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
    /// The public view.
    #[serde(flatten)]
    pub session: SessionView,
}

/// The answer to the heartbeat of a session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct SessionAlive {
    /// How long it lives, counted on the caller's clock from BEFORE it sent the request.
    pub valid_for_ms: u64,
    /// The leases that it keeps.
    #[serde(default)]
    pub leases: Holdings,
    /// Notices for its holder.
    #[serde(default)]
    pub notices: Vec<Notice>,
}

/// A notice for a holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Notice {
    /// `revoked`, `handover-requested` or `draining`; more may be added.
    #[serde(rename = "type")]
    pub kind: String,
    /// The key of the lease; without one, all leases.
    #[serde(default)]
    pub key: Option<String>,
    /// The token of the tenure.
    #[serde(default)]
    pub token: Option<u64>,
    /// The time until the announced event.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
}

/// One page of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// In the order of their digests.
    pub sessions: Vec<SessionView>,
    /// The cursor of the next page, when there is one.
    #[serde(default)]
    pub next: Option<String>,
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
    #[must_use]
    pub fn known(&self) -> Option<Code> {
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
