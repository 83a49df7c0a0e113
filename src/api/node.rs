//! The coordinators on one store. A client reads the fields that an older coordinator lacks as their defaults.

use serde::{Deserialize, Serialize};

/// A coordinator on the store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = NodeInfo))]
pub struct Node {
    /// The URL at which clients and other nodes reach it.
    pub url: String,
    /// `alive`; `draining`: it is stopping; `drained`: it has left; `dead`: its record ran out.
    pub state: String,
    /// The version of the program that it runs.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub version: String,
    /// The name of its current life. A node that was found dead continues under another one.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub incarnation: String,
    /// The number of leases whose home node it was when it last wrote its record.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = u32, required))]
    pub leases: u64,
    /// Milliseconds until its record runs out unless it is renewed. Null if the node has left or is dead, or if the
    /// store is not shared.
    #[serde(default)]
    pub runs_out_in_ms: Option<u64>,
    /// Whether it is the node that answers.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub this: bool,
    /// Whether another live node has the same URL. Calls for one of them then reach the other: `node.advertise_url` of
    /// one of them is wrong.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub address_shared: bool,
    /// Whether its policies or plugins differ from those of the node that answers. Only nodes of the same version are
    /// compared.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub rules_differ: bool,
    /// A digest of its access file: nodes with the same principals, rights and public keys show the same. It says nothing
    /// else about the file. Null if the node does not say.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub access_digest: Option<String>,
    /// Whether its access file differs from that of the node that answers. Only nodes of the same version are compared.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub access_differs: bool,
}

/// Answer of `/v1/nodes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Nodes {
    /// The coordinators on this store, the answering one first.
    pub nodes: Vec<Node>,
}
