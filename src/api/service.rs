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
    /// Whether traffic may be sent to this node.
    pub ready: bool,
    /// Why the node is not ready; empty if it is.
    pub reasons: Vec<String>,
}

/// Answer of `/v1/info`.
#[derive(Serialize, ToSchema)]
pub struct Info {
    /// The version of the program.
    pub version: &'static str,
    /// The URL of the node that answers.
    pub node: String,
    /// The kind of the store: `embedded`, `nats` or `dynamodb`.
    pub store: &'static str,
    /// The epoch: the upper bits of the tokens that are granted now.
    pub epoch: u16,
    /// The identity of the store, which no other store shares.
    pub store_id: String,
    /// Whether every caller may make every call, because no access file is in force.
    pub open: bool,
    /// How long after its death a coordinator counts as alive, in milliseconds: `node.ttl`. Null if the store is not shared.
    pub node_ttl_ms: Option<u64>,
}
