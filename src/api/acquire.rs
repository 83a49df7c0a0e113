//! Acquiring one lease.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::lease::Lease;

/// Body of `POST /v1/acquire`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// The key to acquire. 1 to 512 bytes, of characters that are seen.
    pub key: String,
    /// The name of the worker that acquires the lease. 1 to 256 bytes, of characters that are seen.
    pub owner: String,
    /// How long a grant or a heartbeat keeps the lease, in milliseconds. 100 to 86 400 000, unless the settings or the
    /// key's policy say otherwise. Required unless `session` is given.
    pub ttl_ms: Option<u64>,
    /// The id of the session that keeps the lease, 64 hexadecimal digits, in place of `ttl_ms`.
    pub session: Option<String>,
    /// How long to wait in the key's queue, in milliseconds. 0, the default, means not at all; the highest value is
    /// `limits.wait_max`.
    #[serde(default)]
    pub wait_ms: u64,
    /// A new value for the key, at most 16 KiB. Without it, the key keeps its value.
    pub value: Option<String>,
    /// Whether to replace a tenure of the same owner. The old tenure then ends, and a new one with a higher token
    /// begins.
    #[serde(default)]
    pub reclaim: bool,
    /// For how long from the grant nobody else is granted the key, in milliseconds, even if the lease is released or
    /// runs out. At most 86 400 000 (a day); 0, the default, means no such time. A transfer to a named successor and a
    /// revocation end it.
    #[serde(default)]
    pub min_hold_ms: u64,
    /// A name for this request, 1 to 64 bytes. A call that repeats it finds its own grant, or learns that the grant has
    /// ended. A key remembers the last four request ids under which it was granted; a call with an older one counts as
    /// a new request.
    pub request_id: Option<String>,
}

/// What the holder gets: the lease, its secret, and how long the holder may rely on it.
#[derive(Debug, Serialize, ToSchema)]
pub struct Grant {
    /// The public view of the lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// The secret that authorizes heartbeat, release and transfer of this tenure: 32 hexadecimal digits.
    pub lease_id: String,
    /// The caller holds the lease for this many milliseconds, counted on its own clock from the moment BEFORE it sent
    /// the request.
    pub valid_for_ms: u64,
}
