//! Calls with a lease in hand: heartbeat, release, transfer, check.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Body of `POST /v1/heartbeat`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
    /// A new value for the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// A new ttl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// Answer of `POST /v1/heartbeat`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct HeartbeatAnswer<'a> {
    /// The key.
    pub key: &'a str,
    /// The tenure's fencing token.
    pub token: u64,
    /// As in a grant, counted from before this heartbeat was sent.
    pub valid_for_ms: u64,
    /// The tenure had run out, and goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
    /// What the coordinator asks of the holder.
    pub notices: [String; 0],
}

/// Body of `POST /v1/release`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
    /// A last value for the successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Answer of `POST /v1/release`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Released {
    /// Whether this call ended the tenure; false when it was over already.
    pub released: bool,
    /// Everything else.
    #[serde(flatten)]
    #[cfg_attr(feature = "server", schema(ignore))]
    pub other: Map<String, Value>,
}

impl From<bool> for Released {
    fn from(released: bool) -> Self {
        Self { released, other: Map::new() }
    }
}

/// Body of `POST /v1/transfer`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TransferBody {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
    /// The owner that may take it; without it the first caller in the queue is granted the key by the same
    /// write, and where nobody waits the key is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long it is kept for the owner in `to`; the tenure's ttl by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_ms: Option<u64>,
    /// A last value for the successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Body of `POST /v1/check`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The key.
    pub key: String,
    /// The token to check.
    pub token: u64,
}
