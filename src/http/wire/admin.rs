//! Orders of administrators.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/admin/fence-skip`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FenceSkipBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// Why; at most 256 bytes.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub reason: String,
}

/// Body of `POST /v1/admin/forget`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetBody {
    /// What the keys start with.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub prefix: String,
    /// Why; at most 256 bytes.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub reason: String,
    /// `next` of the call before: only keys after it.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub after: Option<String>,
}

/// Answer of `POST /v1/admin/forget`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Forgot {
    /// How many keys were forgotten. Their records go in five minutes, unless they are granted before.
    pub forgotten: usize,
    /// How many that were looked at are held, shut, kept for somebody, pinned or waited for: they stay.
    pub left: usize,
    /// There may be more: the same call with this as `after` goes on. Null after the last.
    pub next: Option<String>,
}

/// Body of `POST /v1/admin/revoke`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// Why; at most 256 bytes.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub reason: String,
    /// Do not wait for the holder's last promise. Its window may then overlap the next one's.
    #[serde(default)]
    pub immediately: bool,
}

/// Answer of `POST /v1/admin/revoke`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Revoked {
    /// The order is durable.
    pub revoked: bool,
    /// Milliseconds until the tenure has ended; 0: it has.
    pub ends_in_ms: u64,
}

/// Body of `POST /v1/admin/pin` and `POST /v1/admin/unpin`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinBody {
    /// The key.
    #[schema(min_length = 1, max_length = 512, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub key: String,
    /// In whose name; 1 to 64 bytes.
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub by: String,
}

/// Body of `POST /v1/admin/drain`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// Whose leases.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: String,
}

/// Answer of `POST /v1/admin/drain`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Drained {
    /// Leases whose end is ordered.
    pub revoked: usize,
    /// Leases that stay, since they are pinned.
    pub pinned: usize,
    /// Sessions of pools that balance, which are asked to hand over all that they keep.
    #[serde(default)]
    pub draining: usize,
}
