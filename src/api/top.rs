//! The keys, owners and pools that changed most.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How often one key, owner or pool changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct TopRow {
    /// The key, the owner or the pool.
    pub name: String,
    /// The pool of the key; null for owners and pools.
    #[serde(default)]
    pub pool: Option<String>,
    /// It changed at least this often: so often was it counted.
    pub at_least: u64,
    /// It changed at most this often.
    pub at_most: u64,
    /// How often it was counted, by cause: the short types of the events. Causes without a change are left out.
    pub changes: BTreeMap<String, u64>,
}

/// Answer of `GET /v1/top`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Top {
    /// `keys`, `owners` or `pools`.
    pub by: String,
    /// The cause that the query names; null for all causes.
    #[serde(default)]
    pub cause: Option<String>,
    /// The window that was asked for, in milliseconds.
    pub window_ms: u64,
    /// The time that the answer covers, in milliseconds. It is less than the window if the node began later, and a
    /// little more otherwise: slices of 10 s or a minute are not divided.
    pub covers_ms: u64,
    /// Those that changed most, first the one that was counted most often.
    pub rows: Vec<TopRow>,
    /// Whatever is not listed changed at most this often.
    pub others_at_most: u64,
}
