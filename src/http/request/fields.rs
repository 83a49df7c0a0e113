//! Reads single fields: names and secrets of keys, owners, leases and sessions.

use crate::{
    http::answer::Problem,
    lease::{Key, LeaseId, NotASessionId, Owner, SessionId},
};

/// Reads a key from a body.
pub fn key(text: &str) -> Result<Key, Problem> {
    Key::new(text).map_err(|error| Problem::field("key", error))
}

/// Reads an owner from the field `field` of a body.
pub fn owner(field: &str, text: &str) -> Result<Owner, Problem> {
    Owner::new(text).map_err(|error| Problem::field(field, error))
}

/// Reads a lease id from a body.
pub fn lease_id(text: &str) -> Result<LeaseId, Problem> {
    text.parse().map_err(|error| Problem::field("lease_id", error))
}

/// Reads a session id from a body or a path.
pub fn session_id(field: &str, text: &str) -> Result<SessionId, Problem> {
    text.parse().map_err(|error: NotASessionId| Problem::field(field, error))
}

/// What is to keep a requested lease: a ttl or a session.
pub fn kept_by(
    ttl_ms: Option<u64>,
    session: Option<&str>,
) -> Result<(u64, Option<SessionId>), Problem> {
    match (ttl_ms, session) {
        (Some(ttl_ms), None) => Ok((ttl_ms, None)),
        (None, Some(id)) => Ok((0, Some(session_id("session", id)?))),
        (None, None) => Err(Problem::field("ttl_ms", "or session must be given")),
        (Some(_), Some(_)) => Err(Problem::field("session", "and ttl_ms exclude each other")),
    }
}
