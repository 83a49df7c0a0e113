//! Any of several leases.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};
use utoipa::ToSchema;

use super::{acquire::Grant, order::AnyOrder, strict::word};

/// The number of keys of an acquire-any in each state.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Counts {
    /// Keys that were tried.
    pub keys: usize,
    /// Keys that other owners hold.
    pub held: usize,
    /// Keys that the caller's owner already holds.
    pub held_by_you: usize,
    /// Keys that are reserved for another owner.
    pub offered: usize,
    /// Keys that a lock-delay keeps closed.
    pub cooling: usize,
    /// Keys that stay closed until a fence of the last tenure is confirmed.
    pub fencing: usize,
    /// Milliseconds until the first of these states ends, unless it is renewed.
    #[serde(skip)]
    pub next_ms: Option<u64>,
}

/// Body of `POST /v1/acquire-any`. Exactly one of `keys`, `prefix` and `pool` names the candidates.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireAnyBody {
    /// The candidates: 1 to 10 000 keys of characters that are seen, each named once.
    pub keys: Option<Vec<String>>,
    /// The candidates are the keys that begin with this prefix and have a record. At most 512 bytes.
    pub prefix: Option<String>,
    /// The candidates are the keys of this pool that have a record.
    pub pool: Option<String>,
    /// The name of the worker that acquires the leases. 1 to 256 bytes, of characters that are seen.
    pub owner: String,
    /// How long a grant or a heartbeat keeps each lease, in milliseconds. 100 to 86 400 000, unless the settings or the
    /// key's policy say otherwise. Required unless `session` is given.
    pub ttl_ms: Option<u64>,
    /// The id of the session that keeps the leases, 64 hexadecimal digits, in place of `ttl_ms`.
    pub session: Option<String>,
    /// The highest number of keys to take: 1 to 10 000, by default 1. `fair` stands for as many keys as the session
    /// lacks of its share of the pool that it joined. `pool` must then name that pool, or `keys` must name keys of it.
    #[serde(default = "one", deserialize_with = "count")]
    #[schema(schema_with = count_schema)]
    pub count: Count,
    /// The order in which the candidates are tried; `random` by default.
    #[serde(default, deserialize_with = "word")]
    pub order: AnyOrder,
    /// How long to wait for a key when none is available, in milliseconds. 0, the default, means not at all; the
    /// highest value is `limits.wait_max`.
    #[serde(default)]
    pub wait_ms: u64,
    /// A name for this request, 1 to 64 bytes. A call that repeats it finds its own grants, or learns that they have
    /// ended. A key remembers the last four request ids under which it was granted; a call with an older one counts as
    /// a new request.
    pub request_id: Option<String>,
}

/// How many leases an acquire-any takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// At most this many.
    UpTo(u64),
    /// As many as the session lacks of its share of its pool.
    Fair,
}

fn one() -> Count {
    Count::UpTo(1)
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Count, D::Error> {
    struct CountOrFair;
    impl Visitor<'_> for CountOrFair {
        type Value = Count;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number or \"fair\"")
        }

        fn visit_u64<E: Error>(self, count: u64) -> Result<Count, E> {
            Ok(Count::UpTo(count))
        }

        fn visit_str<E: Error>(self, word: &str) -> Result<Count, E> {
            let fair = (word == "fair").then_some(Count::Fair);
            fair.ok_or_else(|| E::invalid_value(Unexpected::Str(word), &self))
        }
    }
    from.deserialize_any(CountOrFair)
}

fn count_schema() -> utoipa::openapi::schema::Schema {
    use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
    let number =
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(10_000));
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["fair"]));
    OneOfBuilder::new().item(number).item(word).build().into()
}

/// Answer of `POST /v1/acquire-any`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Grants {
    /// The grants: at least 1, and at most `count`.
    #[schema(value_type = Vec<Grant>)]
    pub grants: Vec<AnyGrant>,
}

/// A grant of an acquire-any.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of this node")]
pub enum AnyGrant {
    /// A grant whose home node is this node.
    Own(Grant),
    /// Another node's grant, as the JSON object that it answered.
    Others(serde_json::Value),
}

impl AnyGrant {
    /// The key of the grant; `None` if another node's grant has none.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Own(grant) => Some(&grant.lease.key),
            Self::Others(grant) => grant["key"].as_str(),
        }
    }
}

/// Answer of another node to `POST /v1/acquire-any`.
#[derive(Debug, Deserialize)]
pub struct GrantsOfOthers {
    /// The grants, as JSON objects that are passed on unchanged.
    pub grants: Vec<serde_json::Value>,
}
