//! Many leases at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::strict::objects;

/// One lease of a batch.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    /// The key.
    pub key: String,
    /// The secret of the grant.
    pub lease_id: String,
}

/// Body of `POST /v1/heartbeats` and `POST /v1/releases`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// At most 10 000 leases.
    #[serde(deserialize_with = "objects")]
    pub leases: Vec<LeaseRef>,
}

/// The verdict on one lease of a batch: as its single call would have been answered.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Verdict<'a> {
    /// The key.
    pub key: &'a str,
    /// The status that the single call would have had.
    pub status: u16,
    /// The tenure's fencing token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// As in a grant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
    /// The tenure had run out, and goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
    /// Whether this call ended the tenure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<bool>,
    /// The problem's code, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// How the lease was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Where the lease is at home, when that is another node: ask there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Answer of `POST /v1/heartbeats` and `POST /v1/releases`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Verdicts<'a> {
    /// One for each lease, in order.
    #[schema(value_type = Vec<Verdict<'static>>)]
    pub results: Vec<Item<'a>>,
}

/// A verdict of this node, or that of another one as it came, with its URL as `node`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Item<'a> {
    /// This node's.
    Own(Verdict<'a>),
    /// Another's.
    Others(serde_json::Value),
}

/// A part of a batch, to be passed on.
#[derive(Debug, Serialize)]
pub struct BatchRefs<'a> {
    /// The leases.
    pub leases: Vec<&'a LeaseRef>,
}
