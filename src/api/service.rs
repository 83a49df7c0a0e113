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
