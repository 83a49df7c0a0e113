//! Orders of administrators.

use serde::{Deserialize, Serialize};

/// Body of `POST /v1/admin/fence-skip`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FenceSkipBody {
    /// The key.
    pub key: String,
    /// Why; at most 256 bytes.
    pub reason: String,
}

/// Body of `POST /v1/admin/forget`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ForgetBody {
    /// What the keys start with.
    pub prefix: String,
    /// Why; at most 256 bytes.
    pub reason: String,
    /// `next` of the call before: only keys after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Answer of `POST /v1/admin/forget`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Forgot {
    /// How many keys were forgotten. Their records go in five minutes, unless they are granted before.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub forgotten: u64,
    /// How many that were looked at are held, shut, kept for somebody, pinned or waited for: they stay.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub left: u64,
    /// There may be more: the same call with this as `after` goes on. Null after the last.
    #[serde(default)]
    pub next: Option<String>,
}

/// Body of `POST /v1/admin/revoke`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RevokeBody {
    /// The key.
    pub key: String,
    /// Why; at most 256 bytes.
    pub reason: String,
    /// Do not wait for the holder's last promise. Its window may then overlap the next one's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub immediately: bool,
}

/// Answer of `POST /v1/admin/revoke`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Revoked {
    /// The order is durable.
    pub revoked: bool,
    /// Milliseconds until the tenure has ended; 0: it has.
    pub ends_in_ms: u64,
}

/// Body of `POST /v1/admin/pin` and `POST /v1/admin/unpin`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PinBody {
    /// The key.
    pub key: String,
    /// In whose name; 1 to 64 bytes.
    pub by: String,
}

/// Body of `POST /v1/admin/drain`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainBody {
    /// Whose leases.
    pub owner: String,
}

/// Answer of `POST /v1/admin/drain`.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Drained {
    /// Leases whose end is ordered.
    pub revoked: usize,
    /// Leases that stay, since they are pinned.
    pub pinned: usize,
    /// Sessions of pools that balance, which are asked to hand over all that they keep.
    #[serde(default)]
    pub draining: usize,
}
