//! What became of a lease.

use serde::{Deserialize, Serialize};

/// A tenure of a key, as far as the events that were found tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PastTenure {
    /// The owner.
    pub owner: String,
    /// The fencing token.
    pub token: u64,
    /// The digest of the session that kept it; null if none did.
    #[serde(default)]
    pub session: Option<String>,
    /// When it began, in RFC 3339 form; null if the event of the grant was not found.
    #[serde(default)]
    pub began: Option<String>,
    /// When it ended, in RFC 3339 form; null if it goes on.
    #[serde(default)]
    pub ended: Option<String>,
    /// How long it lasted, or lasts so far, in milliseconds by the wall clocks of its nodes; null if its beginning is
    /// not known.
    #[serde(default)]
    pub held_ms: Option<u64>,
    /// How it ended: the short type of the event, such as `expired`; null if it goes on.
    #[serde(default)]
    pub end: Option<String>,
    /// Why it ended, in the words of the protocol or of the administrator.
    #[serde(default)]
    pub reason: Option<String>,
    /// The administrator or the principal that ended it, if one did.
    #[serde(default)]
    pub actor: Option<String>,
}

/// Answer of `GET /v1/history`.
#[cfg(feature = "server")]
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LeaseHistory {
    /// The lease now.
    pub lease: super::Lease,
    /// The present tenure, and those that the events tell of, the latest first.
    pub tenures: Vec<PastTenure>,
    /// The latest ownership events of the key in CloudEvents form, the latest first.
    #[schema(value_type = Vec<Object>)]
    pub events: Vec<serde_json::Value>,
    /// Whether the key's first event is among them. Otherwise there are more than `limit`, or the store no longer has
    /// the earlier ones, or they are too far back.
    pub complete: bool,
}

#[cfg(feature = "server")]
impl super::Lease {
    /// The tenure that goes on, from the lease's record, if the latest known tenure is an earlier one. When it began is
    /// in the record for people only.
    pub fn untold(&self, latest: Option<&PastTenure>) -> Option<PastTenure> {
        if self.state != "held" || latest.is_some_and(|latest| latest.token >= self.token) {
            return None;
        }
        Some(PastTenure {
            owner: self.owner.clone()?,
            token: self.token,
            session: self.session.clone(),
            began: self.acquired_at.clone(),
            ..PastTenure::default()
        })
    }
}
