//! Documents as a client reads them, whatever the version of the coordinator.
//!
//! A coordinator writes each of these documents in full. A client names the fields that it works with, and keeps all
//! others as they came, so that it passes on what a newer coordinator adds. A field that an older coordinator lacks is
//! read as its default.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{history::PastTenure, problem::Code, session::Holdings};

/// The public view of a lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeaseView {
    /// The key, which names what is leased.
    pub key: String,
    /// `free`, `held`, `fencing`, `cooling` or `offered`.
    pub state: String,
    /// The owner that holds the lease, if one does.
    pub owner: Option<String>,
    /// The fencing token of the current tenure, or of the last one.
    pub token: Option<u64>,
    /// How long a grant or a heartbeat keeps the lease, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Milliseconds until the state ends if nothing happens, if the coordinator knows.
    pub expires_in_ms: Option<u64>,
    /// When the current tenure began, in RFC 3339 form. For people only.
    pub acquired_at: Option<String>,
    /// The key's value, which an owner leaves for the next one.
    pub value: Option<String>,
    /// The number of callers that wait for the key.
    pub waiters: Option<u64>,
    /// The other fields, as they arrived.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A grant: the lease, with what only its holder gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The public view of the lease.
    #[serde(flatten)]
    pub lease: LeaseView,
    /// The secret that authorizes heartbeats, releases and transfers of this tenure.
    pub lease_id: String,
    /// How long the caller holds the lease, in milliseconds, counted on its own clock from the moment BEFORE it sent
    /// the request.
    pub valid_for_ms: u64,
}

/// The answer to an acquire-any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grants {
    /// The grants, at least one.
    pub grants: Vec<Grant>,
}

/// The answer to a heartbeat of a lease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alive {
    /// The fencing token of the tenure.
    pub token: u64,
    /// How long the caller holds the lease, in milliseconds, counted on its own clock from the moment BEFORE it sent
    /// the heartbeat.
    pub valid_for_ms: u64,
    /// Notices to the holder. Current coordinators send none with the heartbeat of a single lease.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// The other fields, as they arrived.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Whether the token is the current holder's.
    pub current: bool,
    /// The public view of the lease, if the coordinator sent it.
    pub lease: Option<LeaseView>,
    /// The other fields, as they arrived.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One page of a list of leases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leases {
    /// The leases, in the byte order of their keys.
    pub leases: Vec<LeaseView>,
    /// The `after` of the next page; `None` on the last page.
    #[serde(default)]
    pub next: Option<String>,
    /// The `before` of the page before; `None` on the first page.
    #[serde(default)]
    pub previous: Option<String>,
}

/// What became of a lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The lease now.
    pub lease: LeaseView,
    /// The tenures that the events tell of, the latest first.
    pub tenures: Vec<PastTenure>,
    /// The latest ownership events of the key in CloudEvents form, the latest first.
    pub events: Vec<Value>,
    /// Whether the key's first event is among them.
    pub complete: bool,
    /// The other fields, as they arrived.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The public view of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// The public name of the session. Unlike the id, it is no secret.
    pub digest: String,
    /// The owner that opened the session.
    pub owner: String,
    /// How long a heartbeat keeps the session, in milliseconds.
    pub ttl_ms: u64,
    /// Milliseconds until the session ends if nothing happens; `None` if only its home node knows.
    #[serde(default)]
    pub expires_in_ms: Option<u64>,
    /// A summary of the leases that the session keeps; `None` if only its home node knows.
    #[serde(default)]
    pub leases: Option<Holdings>,
    /// How long the member's keys are kept for its owner if it ends without a drain, in milliseconds; `None` if its pool
    /// does not keep them.
    #[serde(default)]
    pub rejoin_window_ms: Option<u64>,
    /// The other fields, as they arrived.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The answer to a request that opened a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The secret that authorizes the session's heartbeats, grants and end.
    pub id: String,
    /// How long the session lives, in milliseconds, counted on the caller's own clock from the moment BEFORE it sent
    /// the request.
    pub valid_for_ms: u64,
    /// The public view of the session.
    #[serde(flatten)]
    pub session: SessionView,
}

/// The answer to a heartbeat of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionAlive {
    /// How long the caller holds the leases of the session, except those that a notice `revoked` names: milliseconds on
    /// its own clock from the moment BEFORE it sent the heartbeat.
    pub valid_for_ms: u64,
    /// A summary of the leases that the session keeps.
    #[serde(default)]
    pub leases: Holdings,
    /// Notices to the holder, which it must read.
    #[serde(default)]
    pub notices: Vec<Notice>,
}

/// A notice to the holder of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// `revoked`, `handover-requested`, `handover-prepare`, `draining` or `replaced`. Later versions may add more.
    #[serde(rename = "type")]
    pub kind: String,
    /// The key of the lease that the notice is about; `None` if it is about all leases.
    #[serde(default)]
    pub key: Option<String>,
    /// The token of the tenure that the notice is about.
    #[serde(default)]
    pub token: Option<u64>,
    /// Milliseconds until the lease or the session is revoked, if the notice is a request to hand over; until the holder
    /// is asked, if it is one to prepare.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// The value of the key to prepare for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The owner that holds the key to prepare for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where that owner serves its keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether the session said that it is prepared for the key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prepared: bool,
}

/// One page of a list of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sessions {
    /// The sessions, in the order of their digests.
    pub sessions: Vec<SessionView>,
    /// The `after` of the next page; `None` on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// The answer to a probe: whether traffic may be sent to a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether traffic may be sent to it.
    pub ready: bool,
    /// Why not; empty if it is ready, or if the caller may not observe.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The other fields, as they arrived.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A problem document (RFC 9457) with tenure's extensions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The kind of problem in a few words, for people.
    pub title: String,
    /// What happened this time and what helps, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The stable name of the kind of problem, such as `held` or `lease-lost`.
    pub code: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// How long to wait before the next attempt, in milliseconds, if the coordinator knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The lease that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// How the lease or the session was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The field or parameter that is not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The number of keys of an acquire-any in each state, as a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Value>,
    /// How many leases of its pool the session should hold, if the call asked for its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<u64>,
    /// How many leases of its pool the session holds, if the call asked for its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by_session: Option<u64>,
}

impl Problem {
    /// The code of the problem; `None` if this version does not know it.
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
