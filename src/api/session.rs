//! Sessions.

use serde::{Deserialize, Serialize};

use super::{
    health_check::HealthCheck,
    notice::Notice,
    strict::{objects, word},
};

/// What becomes of the keys' values when a session ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BehaviorName {
    /// They stay, for the next owner to read.
    #[default]
    Release,
    /// They go. Tokens never do.
    Delete,
}

/// A session to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// 1 to 256 bytes.
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// What becomes of the keys' values at its end.
    #[serde(default, deserialize_with = "word")]
    pub behavior: BehaviorName,
    /// How long its keys stay shut after its end, 0 to 60 000; absent: as their policies say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_delay_ms: Option<u32>,
    /// The pool that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its share of the pool's work beside other members, 1 to 1 000 000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Most leases of the pool that it is to have at a time, 1 to 1 000 000; the rest of its share falls to other
    /// members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// What else must hold for it to live; at most 8.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<HealthCheck>,
}

/// A session as everybody may see it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = SessionWire))]
pub struct Session {
    /// Its name for everybody; its id is a secret.
    pub digest: String,
    /// Whose it is.
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// Until it ends if nothing happens; null where another node knows.
    pub expires_in_ms: Option<u64>,
    /// What becomes of the keys' values at its end.
    pub behavior: BehaviorName,
    /// How long its keys stay shut after its end; null: as their policies say.
    pub lock_delay_ms: Option<u32>,
    /// The pool that it works for.
    pub pool: Option<String>,
    /// Its share of the pool's work.
    pub weight: u32,
    /// Most leases of the pool that it is to have at a time; null: no bound but its share.
    pub capacity: Option<u32>,
    /// What else must hold for it to live.
    pub checks: Vec<HealthCheck>,
    /// The leases that it keeps; null where another node knows.
    pub leases: Option<Holdings>,
    /// The URL of the node at which it is at home.
    pub node: Option<String>,
    /// RFC 3339, for people only.
    pub created_at: Option<String>,
}

/// The leases of a session, in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = HoldingsWire))]
pub struct Holdings {
    /// How many.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub count: u64,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of key, a zero byte and the token in decimal;
    /// 16 hexadecimal digits.
    pub digest: String,
}

/// A session that was made.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = OpenedWire))]
pub struct OpenedSession {
    /// The secret that authorises its heartbeat and its end.
    pub id: String,
    /// It lives from the answer until so long after the moment before the request was sent.
    pub valid_for_ms: u64,
    /// What everybody may see.
    #[serde(flatten)]
    pub session: Session,
}

/// A heartbeat of a session.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BeatBody {
    /// How far the work has come, in any words; a `progress` check wants it to change. At most 256 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

/// A heartbeat that was absorbed.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = BeatWire))]
pub struct SessionBeat {
    /// Every lease of the session, but for those that notices name, is held from the answer until so long
    /// after the moment before the heartbeat was sent.
    pub valid_for_ms: u64,
    /// What it keeps.
    pub leases: Holdings,
    /// What its holder should know.
    pub notices: Vec<Notice>,
}

/// Body of `POST /v1/sessions/{id}/drain`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionDrainBody {}

/// A session that is to hand over what it keeps.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = DrainingWire))]
pub struct DrainingSession {
    /// It is, now or from before.
    pub draining: bool,
    /// Milliseconds until it is ordered to end, with what it keeps by then.
    pub deadline_ms: u64,
}

/// Whether a session was ended by this call.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = ClosedWire))]
pub struct ClosedSession {
    /// False: it was over already.
    pub destroyed: bool,
}

/// A page of sessions.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = SessionsWire))]
pub struct Sessions {
    /// By digest.
    pub sessions: Vec<Session>,
    /// Where the next page begins; null: this was the last.
    pub next: Option<String>,
}
