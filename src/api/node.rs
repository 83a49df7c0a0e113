//! The coordinators on one store. A client reads the fields of older coordinators as their defaults.

use serde::{Deserialize, Serialize};

/// One coordinator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = NodeInfo))]
pub struct Node {
    /// Its address.
    pub url: String,
    /// `alive`; `draining`: it is stopping; `drained`: it has left; `dead`: it let its record run out.
    pub state: String,
    /// Its version.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub version: String,
    /// Names this run of it.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub incarnation: String,
    /// How many leases are at home at it, when it last wrote its record.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = u32, required))]
    pub leases: u64,
    /// Milliseconds until its record runs out unless it is renewed; null where there is none.
    #[serde(default)]
    pub runs_out_in_ms: Option<u64>,
    /// Whether it is the one that answers.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub this: bool,
    /// Another living one says that it is reached at the same address: calls for one reach the other, and
    /// `node.advertise_url` of one of them is wrong.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub address_shared: bool,
    /// It goes by other policies or plugins than the one that answers.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub rules_differ: bool,
}

/// Answer of `/v1/nodes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Nodes {
    /// The coordinators on this store.
    pub nodes: Vec<Node>,
}
