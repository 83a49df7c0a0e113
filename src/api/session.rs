//! Sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    health_check::HealthCheck,
    notice::Notice,
    strict::{objects, word},
};

/// What happens to the values of the keys when a session ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BehaviorName {
    /// The values stay, for the next owners to read.
    #[default]
    Release,
    /// The values are deleted. Tokens are never reset.
    Delete,
}

/// Body of `POST /v1/sessions`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// The name of the worker that opens the session. 1 to 256 bytes, of characters that are seen.
    pub owner: String,
    /// How long a heartbeat keeps the session, in milliseconds. 100 to 86 400 000, unless the settings say otherwise.
    pub ttl_ms: u64,
    /// What happens to the values of the keys when the session ends; `release` by default.
    #[serde(default, deserialize_with = "word")]
    pub behavior: BehaviorName,
    /// How long the keys stay closed after the session ends without its holder's consent, in milliseconds: 0 to 60 000.
    /// Without it, the policies of the keys decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_delay_ms: Option<u32>,
    /// The pool that the session joins as a member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The weight of the member, 1 to 1 000 000, by default 1. Members with a higher weight have a larger share of the
    /// pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The most leases of the pool that the member accepts at a time, 1 to 1 000 000. The rest of its share goes to
    /// other members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The version of the program that the member runs, 0 to 64 bytes, of characters that are seen. Runs of digits compare as numbers. While the pool
    /// has members of two versions, keys that come free go to the newest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the member serves its keys, 1 to 256 bytes, of characters that are seen, such as `10.0.0.7:8080`. Routers are told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The highest load that the member accepts, from 0 to 1 000 000 000, in the unit of the loads that its heartbeats
    /// report. It counts in a pool with `balance = "load"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_limit: Option<f64>,
    /// The labels of the member, such as `{"zone": "a", "gpu": "true"}`: at most 16. A name has 1 to 64 and a value 1 to 128
    /// of a-z, A-Z, 0-9, `-`, `_`, `.`, `/` and `:`, and all of them together at most 1024 bytes. Policies say by labels
    /// which members may have their keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether the member takes leases, by default true. With false it has no share until a heartbeat says that it is
    /// ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// At most 8 checks, which must keep passing for the session to live.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<HealthCheck>,
}

/// The public view of a session.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = SessionWire))]
pub struct Session {
    /// The public name of the session: 32 hexadecimal digits. Unlike the id, it is no secret.
    pub digest: String,
    /// The owner that opened the session.
    pub owner: String,
    /// How long a heartbeat keeps the session, in milliseconds.
    pub ttl_ms: u64,
    /// Milliseconds until the session ends if nothing happens; null if only its home node knows.
    pub expires_in_ms: Option<u64>,
    /// What happens to the values of the keys when the session ends.
    pub behavior: BehaviorName,
    /// How long the keys stay closed after the session ends without its holder's consent, in milliseconds; null if the
    /// policies of the keys decide.
    pub lock_delay_ms: Option<u32>,
    /// The pool that the session joined; null if it joined none.
    pub pool: Option<String>,
    /// How long the member's keys are kept for its owner if it ends without a drain, in milliseconds; null if its pool
    /// does not keep them.
    pub rejoin_window_ms: Option<u32>,
    /// The weight of the member. Members with a higher weight have a larger share of the pool.
    pub weight: u32,
    /// The most leases of the pool that the member accepts at a time; null if only its share limits it.
    pub capacity: Option<u32>,
    /// The version of the program that the member runs; null if it did not say.
    pub version: Option<String>,
    /// Where the member serves its keys; null if it did not say.
    pub address: Option<String>,
    /// The labels of the member.
    pub labels: BTreeMap<String, String>,
    /// Whether the member takes leases.
    pub ready: bool,
    /// The checks that must keep passing for the session to live.
    pub checks: Vec<HealthCheck>,
    /// A summary of the leases that the session keeps; null if only its home node knows.
    pub leases: Option<Holdings>,
    /// The URL of the session's home node; null if the answering node does not know it yet.
    pub node: Option<String>,
    /// When the session was opened, in RFC 3339 form. For people only.
    pub created_at: Option<String>,
}

/// A summary of the leases that a session keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = HoldingsWire))]
pub struct Holdings {
    /// The number of leases.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub count: u64,
    /// A checksum of the leases: for each lease, take the first 64 bits of the SHA-256 of the key, a zero byte and the
    /// token in decimal. The digest is the XOR of these numbers, as 16 hexadecimal digits.
    pub digest: String,
}

/// Answer of `POST /v1/sessions`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = OpenedWire))]
pub struct OpenedSession {
    /// The secret that authorizes the session's heartbeats, grants and end: 64 hexadecimal digits.
    pub id: String,
    /// The session lives for this many milliseconds, counted on the caller's own clock from the moment BEFORE it sent
    /// the request.
    pub valid_for_ms: u64,
    /// The public view of the session.
    #[serde(flatten)]
    pub session: Session,
}

/// Body of `POST /v1/sessions/{id}/heartbeat`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BeatBody {
    /// How far the work has come, in any words, at most 256 bytes. A `progress` check fails if it does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// True: the member takes leases from now on. A member that is ready stays so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Keys that a notice `handover-prepare` names and that the member is prepared to take over, at most 256. Repeat them
    /// until the notice says `prepared`. Keys that it does not name are passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Vec<String>>,
    /// The load of leases that the session holds, by key, in any unit: from 0 to 1 000 000 000. It counts in a pool with
    /// `balance = "load"`. A key that the session does not hold is passed over. A load counts until it is reported again,
    /// or removed with null. All loads of a session may take at most 14 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "server", schema(value_type = Option<HashMap<String, Option<f64>>>))]
    pub loads: Option<BTreeMap<String, Option<f64>>>,
    /// The highest load that the member accepts, in the same unit; null for no limit. If it is left out, the last one
    /// holds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "server", schema(value_type = Option<f64>))]
    pub load_limit: Option<Option<f64>>,
    /// The labels of the member, which replace all earlier ones; null removes them. If they are left out, the last ones
    /// hold. When the answer has come, the member is granted no key of its pool that its new labels do not allow.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[cfg_attr(feature = "server", schema(value_type = Option<HashMap<String, String>>))]
    pub labels: Option<Option<BTreeMap<String, String>>>,
}

/// Tells a field that is null from one that is left out.
fn given<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Answer of `POST /v1/sessions/{id}/heartbeat`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = BeatWire))]
pub struct SessionBeat {
    /// The caller holds every lease of the session, except those that a notice `revoked` names, for this many
    /// milliseconds, counted on its own clock from the moment BEFORE it sent the heartbeat.
    pub valid_for_ms: u64,
    /// A summary of the leases that the session keeps.
    pub leases: Holdings,
    /// Notices to the holder. A client must read them: it loses the leases that a notice `revoked` names.
    pub notices: Vec<Notice>,
}

/// Body of `POST /v1/sessions/{id}/drain`, which has no fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionDrainBody {}

/// Answer of `POST /v1/sessions/{id}/drain`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = DrainingWire))]
pub struct DrainingSession {
    /// Always true: the session is draining, since this call or an earlier one.
    pub draining: bool,
    /// Milliseconds until the session is revoked, with the leases that it still keeps.
    pub deadline_ms: u64,
    /// Milliseconds in which notices `handover-requested` ask for the leases one by one, once other members are prepared
    /// for them. After that, a notice `draining` asks for all that are left. 0 if all must be handed over now.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub warm_ms: u64,
}

/// Answer of `DELETE /v1/sessions/{id}`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = ClosedWire))]
pub struct ClosedSession {
    /// Whether this call ended the session; false if it had ended before.
    pub destroyed: bool,
}

/// Answer of `GET /v1/sessions`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = SessionsWire))]
pub struct Sessions {
    /// The sessions, in the order of their digests.
    pub sessions: Vec<Session>,
    /// The `after` of the next page; null on the last page.
    pub next: Option<String>,
}
