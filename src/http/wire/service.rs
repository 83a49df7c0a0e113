//! Probes, and information about the coordinators.

use serde::Serialize;
use utoipa::ToSchema;

/// Answer of `/livez`.
#[derive(Serialize, ToSchema)]
pub struct Live {
    /// Always true.
    pub live: bool,
}

/// Answer of `/readyz`.
#[derive(Serialize, ToSchema)]
pub struct Ready {
    /// Whether to send traffic here.
    pub ready: bool,
    /// Why not.
    pub reasons: Vec<String>,
}

/// Answer of `/v1/info`.
#[derive(Serialize, ToSchema)]
pub struct Info {
    /// The program's version.
    pub version: &'static str,
    /// This coordinator.
    pub node: String,
    /// The kind of the store.
    pub store: &'static str,
    /// The generation of tokens.
    pub epoch: u16,
    /// Names the store.
    pub store_id: String,
}

/// One coordinator.
#[derive(Serialize, ToSchema)]
pub struct NodeInfo {
    /// Its address.
    pub url: String,
    /// `alive`; `draining`: it is stopping; `drained`: it has left; `dead`: it let its record run out.
    pub state: &'static str,
    /// Its version.
    pub version: String,
    /// Names this run of it.
    pub incarnation: String,
    /// How many leases are at home at it, when it last wrote its record.
    pub leases: u32,
    /// Milliseconds until its record runs out unless it is renewed; null where there is none.
    pub runs_out_in_ms: Option<u64>,
    /// Whether it is the one that answers.
    pub this: bool,
    /// Another living one says that it is reached at the same address: calls for one reach the other, and
    /// `node.advertise_url` of one of them is wrong.
    pub address_shared: bool,
    /// It goes by other policies or plugins than the one that answers.
    pub rules_differ: bool,
}

/// Answer of `/v1/nodes`.
#[derive(Serialize, ToSchema)]
pub struct Nodes {
    /// The coordinators on this store.
    pub nodes: Vec<NodeInfo>,
}
