//! What several examples name: the coordinator, the session, and leases.

use crate::api::{Grant, Lease};

/// The URL of the coordinator.
pub const NODE: &str = "http://127.0.0.1:7373";
/// The identity of its store, and the tag of its cursors.
pub const STORE: &str = "5f0c9a3e6b1d4c2a8e7f90b1c2d3e4f5";
pub const STORE_TAG: &str = "5f0c9a3e";
/// The pool of keys without a policy.
pub const POOL: &str = "default";
/// The session of worker-1: its digest, and its id, which begins with the digest.
pub const SESSION: &str = "346ba175f4f687c97280aaac638d59fa";
pub const SESSION_ID: &str = "346ba175f4f687c97280aaac638d59fa1be4db0df05158abd70e7efd2adc5416";
/// The ttl of sessions.
pub const SESSION_TTL_MS: u64 = 15_000;
/// The time of grants and changes, for people.
pub const TIME: &str = "2026-03-14T09:26:53.589Z";

const TTL_MS: u64 = 30_000;

/// A lease that nobody holds, and the token of its last tenure.
pub fn free(key: &str, token: u64) -> Lease {
    Lease {
        key: key.into(),
        state: "free",
        owner: None,
        token,
        ttl_ms: None,
        expires_in_ms: None,
        acquired_at: None,
        session: None,
        value: None,
        pool: POOL.into(),
        node: Some(NODE.into()),
        waiters: 0,
        pinned: false,
        offered_to: None,
        fences: Vec::new(),
        former_owner: None,
        fence_failed: false,
    }
}

/// A lease that its owner keeps by heartbeats.
pub fn held(key: &str, owner: &str, token: u64) -> Lease {
    Lease {
        state: "held",
        owner: Some(owner.into()),
        ttl_ms: Some(TTL_MS),
        expires_in_ms: Some(TTL_MS),
        acquired_at: Some(TIME.into()),
        ..free(key, token)
    }
}

/// A lease that the session keeps.
pub fn kept(key: &str, token: u64) -> Lease {
    Lease {
        ttl_ms: Some(SESSION_TTL_MS),
        expires_in_ms: None,
        session: Some(SESSION.into()),
        ..held(key, "worker-1", token)
    }
}

/// The grant of a lease.
pub fn granted(lease: Lease, lease_id: &str) -> Grant {
    let valid_for_ms = lease.ttl_ms.unwrap_or(TTL_MS);
    Grant { lease, lease_id: lease_id.into(), valid_for_ms }
}
