//! Reads single fields: names of keys and owners, and what is to keep a lease.

use crate::{
    access::Verb,
    http::{answer::Problem, caller::Caller},
    lease::{Key, LeaseId, MAX_KEY_BYTES, Owner, SessionId},
};

/// Reads a key from a body.
pub fn key(text: &str) -> Result<Key, Problem> {
    Key::new(text).map_err(|error| Problem::field("key", error))
}

/// Checks whether a key is valid, at little cost for nearly all valid keys.
fn check_key(text: &str) -> Result<(), Problem> {
    // Control characters beyond ASCII begin with 0xc2.
    let suspect = |b: u8| b.is_ascii_control() || b == 0xc2;
    if text.is_empty() || text.len() > MAX_KEY_BYTES || text.bytes().any(suspect) {
        return key(text).map(drop);
    }
    Ok(())
}

/// Reads a lease that the caller holds: a key to which it has the right, and the id that proves it.
pub fn held(caller: &Caller, key: &str, lease_id: &str) -> Result<LeaseId, Problem> {
    check_key(key)?;
    caller.may(Verb::Hold, key)?;
    caller.lease_id(lease_id)
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
