//! Reads single fields: names of keys and owners, and what is to keep a lease.

use crate::{
    http::{answer::Problem, caller::Caller},
    lease::{Key, Owner, SessionId},
};

/// Reads a key from a body.
pub fn key(text: &str) -> Result<Key, Problem> {
    Key::new(text).map_err(|error| Problem::field("key", error))
}

/// Reads the name of an owner, whoever acts for it, from the field `field` of a body or query.
pub fn owner(field: &str, text: &str) -> Result<Owner, Problem> {
    Owner::new(text).map_err(|error| Problem::field(field, error))
}

/// What is to keep a requested lease: a ttl or a session.
pub fn kept_by(
    caller: &Caller,
    ttl_ms: Option<u64>,
    session: Option<&str>,
) -> Result<(u64, Option<SessionId>), Problem> {
    match (ttl_ms, session) {
        (Some(ttl_ms), None) => Ok((ttl_ms, None)),
        (None, Some(id)) => Ok((0, Some(caller.session_id("session", id)?))),
        (None, None) => Err(Problem::field("ttl_ms", "or session must be given")),
        (Some(_), Some(_)) => Err(Problem::field("session", "and ttl_ms exclude each other")),
    }
}
