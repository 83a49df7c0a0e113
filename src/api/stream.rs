//! What a coordinator sends by a stream (`GET /v1/stream`) besides answers. docs/stream.md describes all messages.

use serde::Serialize;

use super::notice::Notice;

/// The first message of a stream: its bounds.
#[derive(Debug, Serialize)]
pub struct Hello<'a> {
    /// The most calls that may be in flight. Heartbeats and releases have as many again.
    pub calls: usize,
    /// The longest message that the coordinator reads, in bytes.
    pub message_bytes: usize,
    /// How often the coordinator sends a ping, in milliseconds.
    pub ping_ms: u64,
    /// The URL of the node.
    pub node: &'a str,
}

/// A notice to whoever keeps a lease or a session by the stream.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum StreamNotice {
    /// A lease was revoked, ended, or must be handed over.
    Lease(LeaseNotice),
    /// What the heartbeats of a session announce.
    Session(SessionNotice),
}

/// A notice about one lease.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum LeaseNotice {
    /// The tenure ended, without its holder's consent.
    Ended {
        /// The key of the lease.
        key: String,
        /// The token of the tenure. A later tenure of the key is not affected.
        token: u64,
        /// How it ended: the short type of the event, such as `revoked`.
        reason: &'static str,
    },
    /// The lease was revoked: no heartbeat keeps it, and it ends when its last promise has run out.
    Revoked {
        /// The key of the lease.
        key: String,
        /// The token of the tenure that is ending.
        token: u64,
    },
    /// The holder must hand over the lease.
    HandoverRequested {
        /// The key of the lease.
        key: String,
        /// The token of the tenure to hand over.
        token: u64,
        /// Milliseconds until the lease is revoked instead.
        deadline_ms: u64,
    },
}

/// A notice about a session.
#[derive(Debug, Serialize)]
pub struct SessionNotice {
    /// The digest of the session.
    pub session: String,
    /// All that a heartbeat of the session would be told now.
    pub notices: Vec<Notice>,
    /// Whether the session is over.
    pub ended: bool,
}
