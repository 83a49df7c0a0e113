//! Sessions.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::strict::{objects, word};

/// What becomes of the keys' values when a session ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BehaviorName {
    /// They stay, for the next owner to read.
    #[default]
    Release,
    /// They go. Tokens never do.
    Delete,
}

/// A check that the session's home carries out.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CheckSpec {
    /// A GET of the URL is to answer with a 2xx; a redirect is not followed. Only where `checks.allow` lets it connect.
    Http {
        /// `http://` or `https://`.
        #[schema(max_length = 2048, pattern = "^https?://")]
        url: String,
        /// From the end of one round to the next; 100 to 3 600 000.
        #[schema(minimum = 100, maximum = 3600000)]
        interval_ms: u64,
        /// A round that takes longer has failed; 100 to 60 000.
        #[schema(minimum = 100, maximum = 60000)]
        timeout_ms: u64,
        /// So many failed rounds in a row end the session; 1 to 1000.
        #[schema(minimum = 1, maximum = 1000)]
        fail_after: u32,
    },
    /// The address is to accept a connection. Only where `checks.allow` lets it connect.
    Tcp {
        /// `host:port`.
        #[schema(max_length = 256, pattern = ":[0-9]+$")]
        address: String,
        /// From the end of one round to the next.
        #[schema(minimum = 100, maximum = 3600000)]
        interval_ms: u64,
        /// A round that takes longer has failed.
        #[schema(minimum = 100, maximum = 60000)]
        timeout_ms: u64,
        /// So many failed rounds in a row end the session.
        #[schema(minimum = 1, maximum = 1000)]
        fail_after: u32,
    },
    /// The program is to exit with 0. Refused unless the settings allow it.
    Exec {
        /// The program and its arguments.
        #[schema(min_items = 1)]
        command: Vec<String>,
        /// From the end of one round to the next.
        #[schema(minimum = 100, maximum = 3600000)]
        interval_ms: u64,
        /// A round that takes longer has failed: the program and all that it started are killed.
        #[schema(minimum = 100, maximum = 60000)]
        timeout_ms: u64,
        /// So many failed rounds in a row end the session.
        #[schema(minimum = 1, maximum = 1000)]
        fail_after: u32,
    },
    /// The `progress` of the heartbeats is to change within the interval.
    Progress {
        /// Within this.
        #[schema(minimum = 100, maximum = 3600000)]
        interval_ms: u64,
        /// So many intervals in a row without a change end the session.
        #[schema(minimum = 1, maximum = 1000)]
        fail_after: u32,
    },
}

/// A session to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionBody {
    /// 1 to 256 bytes.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: String,
    /// How long a heartbeat keeps it.
    pub ttl_ms: u64,
    /// What becomes of the keys' values at its end.
    #[serde(default, deserialize_with = "word")]
    pub behavior: BehaviorName,
    /// How long its keys stay shut after its end, 0 to 60 000; absent: as their policies say.
    #[schema(maximum = 60000)]
    pub lock_delay_ms: Option<u32>,
    /// The pool that it works for.
    pub pool: Option<String>,
    /// Its share of the pool's work beside other members, 1 to 1 000 000.
    #[schema(minimum = 1, maximum = 1000000)]
    pub weight: Option<u32>,
    /// Most leases of the pool that it is to have at a time, 1 to 1 000 000; the rest of its share falls to other
    /// members.
    #[schema(minimum = 1, maximum = 1000000)]
    pub capacity: Option<u32>,
    /// What else must hold for it to live; at most 8.
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 8)]
    pub checks: Vec<CheckSpec>,
}

/// A session as everybody may see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SessionWire {
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
    pub checks: Vec<CheckSpec>,
    /// The leases that it keeps; null where another node knows.
    pub leases: Option<HoldingsWire>,
    /// The URL of the node at which it is at home.
    pub node: Option<String>,
    /// RFC 3339, for people only.
    pub created_at: Option<String>,
}

/// The leases of a session, in short.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct HoldingsWire {
    /// How many.
    pub count: usize,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of key, a zero byte and the token in decimal;
    /// 16 hexadecimal digits.
    #[schema(value_type = String)]
    #[serde(serialize_with = "hex")]
    pub digest: u64,
}

fn hex<S: serde::Serializer>(digest: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{digest:016x}"))
}

/// A session that was made.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenedWire {
    /// The secret that authorises its heartbeat and its end.
    pub id: String,
    /// It lives from the answer until so long after the moment before the request was sent.
    pub valid_for_ms: u64,
    /// What everybody may see.
    #[serde(flatten)]
    pub session: SessionWire,
}

/// A heartbeat of a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeatBody {
    /// How far the work has come, in any words; a `progress` check wants it to change. At most 256 bytes.
    #[schema(max_length = 256)]
    pub progress: Option<String>,
}

/// A heartbeat that was absorbed.
#[derive(Debug, Serialize, ToSchema)]
pub struct BeatWire {
    /// Every lease of the session, but for those that notices name, is held from the answer until so long
    /// after the moment before the heartbeat was sent.
    pub valid_for_ms: u64,
    /// What it keeps.
    pub leases: HoldingsWire,
    /// What its holder should know.
    pub notices: Vec<Notice>,
}

/// What a holder should know.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Notice {
    /// This lease is ordered to end, and the heartbeat does not keep it.
    Revoked {
        /// Which lease.
        key: String,
        /// Which tenure of it: a later one of the same session is not meant.
        token: u64,
    },
    /// This lease is to be handed over.
    HandoverRequested {
        /// Which lease.
        key: String,
        /// Which tenure of it.
        token: u64,
        /// Milliseconds until it is ordered to end.
        deadline_ms: u64,
    },
    /// The whole session is to hand over what it keeps.
    Draining {
        /// Milliseconds until the session is ordered to end.
        deadline_ms: u64,
    },
}

/// Body of `POST /v1/sessions/{id}/drain`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionDrainBody {}

/// A session that is to hand over what it keeps.
#[derive(Debug, Serialize, ToSchema)]
pub struct DrainingWire {
    /// It is, now or from before.
    pub draining: bool,
    /// Milliseconds until it is ordered to end, with what it keeps by then.
    pub deadline_ms: u64,
}

/// Whether a session was ended by this call.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClosedWire {
    /// False: it was over already.
    pub destroyed: bool,
}

/// Which sessions are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionsQuery {
    /// Only those of this owner.
    #[param(min_length = 1, max_length = 256, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    pub owner: Option<String>,
    /// At most so many; 100 unless said otherwise, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// The `next` of the page before.
    #[param(pattern = "^[0-9a-f]{32}$")]
    pub after: Option<String>,
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionsWire {
    /// By digest.
    pub sessions: Vec<SessionWire>,
    /// Where the next page begins; null: this was the last.
    pub next: Option<String>,
}
