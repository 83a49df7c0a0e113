//! Many leases at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::strict::objects;

/// One lease of a batch.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaseRef {
    /// The key of the lease, 1 to 512 bytes.
    pub key: String,
    /// The `lease_id` of the grant: 32 hexadecimal digits.
    pub lease_id: String,
}

/// Body of `POST /v1/heartbeats` and `POST /v1/releases`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchBody {
    /// The leases, at most 10 000.
    #[serde(deserialize_with = "objects")]
    pub leases: Vec<LeaseRef>,
}

/// The result for one lease of a batch, as a call for this lease alone would have returned it.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Verdict<'a> {
    /// The key of the lease, as in the request.
    pub key: &'a str,
    /// The HTTP status that a call for this lease alone would have had.
    pub status: u16,
    /// The fencing token of the tenure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The caller holds the lease for this many milliseconds, counted on its own clock from the moment BEFORE it sent
    /// the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_for_ms: Option<u64>,
    /// Whether the tenure had run out, nobody had taken the key, and the tenure now continues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revived: bool,
    /// Whether this call ended the tenure; false if it had ended before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<bool>,
    /// The code of the problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// How the lease was lost, if it was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What went wrong and what helps, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The URL of the lease's home node, if that is another node. Send later calls for the lease there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
}

/// Answer of `POST /v1/heartbeats` and `POST /v1/releases`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Verdicts<'a> {
    /// One result for each lease, in the order of the request.
    #[schema(value_type = Vec<Verdict<'static>>)]
    pub results: Vec<Item<'a>>,
}

/// A result of this node, or another node's result as it arrived, with that node's URL as `node`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Item<'a> {
    /// A result of this node.
    Own(Verdict<'a>),
    /// The JSON object that another node answered.
    Others(serde_json::Value),
}

/// The part of a batch that is forwarded to one home node.
#[derive(Debug, Serialize)]
pub struct BatchRefs<'a> {
    /// The leases whose home node that is.
    pub leases: Vec<&'a LeaseRef>,
}
