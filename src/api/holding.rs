//! Calls with a lease in hand: heartbeat, release, transfer, check.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Body of `POST /v1/heartbeat`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// The key of the lease, 1 to 512 bytes.
    pub key: String,
    /// The `lease_id` of the grant: 32 hexadecimal digits.
    pub lease_id: String,
    /// A new value for the key, at most 16 KiB. Without it, the key keeps its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// A new ttl in milliseconds, with the same bounds as in an acquire. Without it, the ttl stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
}

/// Answer of `POST /v1/heartbeat`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct HeartbeatAnswer<'a> {
    /// The key of the lease.
    pub key: &'a str,
    /// The fencing token of the tenure.
    pub token: u64,
    /// The caller holds the lease for this many milliseconds, counted on its own clock from the moment BEFORE it sent
    /// the heartbeat.
    pub valid_for_ms: u64,
    /// Whether the tenure had run out, nobody had taken the key, and the tenure now continues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
    /// Always empty. Only the heartbeat of a session has notices.
    pub notices: [String; 0],
}

/// Body of `POST /v1/release`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The key of the lease, 1 to 512 bytes.
    pub key: String,
    /// The `lease_id` of the grant: 32 hexadecimal digits.
    pub lease_id: String,
    /// A last value for the key, which the next owner reads. At most 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why the holder gives the lease back, for people: 1 to 256 bytes, without control characters. Events, history and the page
    /// show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Answer of `POST /v1/release`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Released {
    /// Whether this call ended the tenure; false if it had ended before.
    pub released: bool,
    /// The other fields of the answer, unchanged.
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
    /// The key of the lease. 1 to 512 bytes, without control characters.
    pub key: String,
    /// The `lease_id` of the grant: 32 hexadecimal digits.
    pub lease_id: String,
    /// The owner for whom the key is then reserved: 1 to 256 bytes, of characters that are seen. Without it, the same write grants the key to the first waiter in
    /// its queue; if nobody waits, the key is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How long the key is reserved for the owner in `to`, in milliseconds, with the bounds of a ttl. By default, the
    /// ttl of the tenure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_ms: Option<u64>,
    /// A last value for the key, which the next owner reads. At most 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why the holder hands the lease over, for people: 1 to 256 bytes, without control characters. Events, history and the page
    /// show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `POST /v1/check`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The key of the lease. 1 to 512 bytes, without control characters.
    pub key: String,
    /// The token to compare with the current holder's; below 2^53.
    pub token: u64,
}
