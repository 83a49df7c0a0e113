//! The fields of the server's answers that the workloads look at.
//!
//! `tenure::client` has these answers whole. A hot loop reads two fields of them and skips the rest.

use serde::{Deserialize, Serialize};

/// A lease that was granted. Written again, it is the body of its release and heartbeat.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Grant {
    /// The key.
    pub key: String,
    /// The secret that authorises heartbeat and release.
    pub lease_id: String,
    /// The fencing token.
    #[serde(skip_serializing)]
    pub token: u64,
}

/// The body of a release or heartbeat of many leases.
#[derive(Debug, Serialize)]
pub struct Leases<'a> {
    /// Which.
    pub leases: &'a [Grant],
}

/// The answer to an acquire of several keys.
#[derive(Debug, Deserialize)]
pub struct Grants {
    /// What was granted.
    pub grants: Vec<Grant>,
}

/// The answer to a batch: one verdict per lease.
#[derive(Debug, Deserialize)]
pub struct Results<T> {
    /// In the order of the request.
    pub results: Vec<T>,
}

/// The verdict of a release.
#[derive(Debug, Deserialize)]
pub struct Released {
    /// Whether the tenure ended by it; absent where it failed.
    #[serde(default)]
    pub released: bool,
}

/// The verdict of a heartbeat.
#[derive(Debug, Deserialize)]
pub struct Alive {
    /// How long the promise holds; absent where there is none.
    pub valid_for_ms: Option<u64>,
}
