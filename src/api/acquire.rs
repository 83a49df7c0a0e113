//! Acquiring one lease.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lease::Lease;

/// Body of `POST /v1/acquire`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// 1 to 512 bytes.
    pub key: String,
    /// 1 to 256 bytes.
    pub owner: String,
    /// 100 to 86 400 000, unless the settings or the key's policy say otherwise. Absent where a session keeps the lease.
    pub ttl_ms: Option<u64>,
    /// The id of the session that is to keep the lease, in place of `ttl_ms`.
    pub session: Option<String>,
    /// How long to wait in the queue; 0, the default, is not at all.
    #[serde(default)]
    pub wait_ms: u64,
    /// A new value for the key, at most 16 KiB.
    pub value: Option<String>,
    /// Take it from oneself: the old tenure ends.
    #[serde(default)]
    pub reclaim: bool,
    /// At most 64 bytes. A repeated call finds its own grant, or hears that it ended. A key remembers the last four
    /// request ids that it was granted under; with an older one it is granted anew.
    pub request_id: Option<String>,
}

/// What the holder gets: the lease, its secret, and its window.
#[derive(Debug, Serialize, ToSchema)]
pub struct Grant {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// The secret that authorises heartbeat, release and transfer of this tenure.
    pub lease_id: String,
    /// The lease is held until this many milliseconds after the moment BEFORE the request was sent, on
    /// the caller's own clock.
    pub valid_for_ms: u64,
}
