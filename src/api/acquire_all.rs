//! Every lease of a list, or none.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::strict::{objects, word};

/// How a key is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One of its permits.
    Shared,
    /// All of its permits: nobody else has one meanwhile.
    Exclusive,
}

/// A key that an acquire-all wants. `permits` and `mode` exclude each other.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedKey {
    /// The key. 1 to 512 bytes, of characters that are seen.
    pub key: String,
    /// How many of its permits to take: 1, the default, to the `permits` of its policy.
    pub permits: Option<u32>,
    /// `shared` takes one permit, and `exclusive` all of them.
    #[serde(default, deserialize_with = "mode")]
    pub mode: Option<Mode>,
}

fn mode<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Mode>, D::Error> {
    word(from).map(Some)
}

/// Body of `POST /v1/acquire-all`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireAllBody {
    /// The keys, each named once. Together they stand for 1 to 256 leases.
    #[serde(deserialize_with = "objects")]
    pub keys: Vec<WantedKey>,
    /// The name of the worker that acquires the leases. 1 to 256 bytes, of characters that are seen.
    pub owner: String,
    /// How long a grant or a heartbeat keeps each lease, in milliseconds. 100 to 86 400 000, unless the settings or the
    /// key's policy say otherwise. Required unless `session` is given.
    pub ttl_ms: Option<u64>,
    /// The id of the session that keeps the leases, 64 hexadecimal digits, in place of `ttl_ms`.
    pub session: Option<String>,
    /// How long to wait for all of the keys together, in milliseconds. 0, the default, means not at all; the highest
    /// value is `limits.wait_max`.
    #[serde(default)]
    pub wait_ms: u64,
    /// A name for this request, 1 to 64 bytes. A call that repeats it gets the same leases. A request that was refused
    /// needs a new name, as it may have had some of the leases for a moment.
    pub request_id: Option<String>,
}
