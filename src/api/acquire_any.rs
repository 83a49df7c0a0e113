//! Any of several leases.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};
use utoipa::ToSchema;

use super::{acquire::Grant, order::AnyOrder, strict::word};

/// How many of the keys of an acquire-any are in which state.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Counts {
    /// Keys that were looked at.
    pub keys: usize,
    /// Held by others.
    pub held: usize,
    /// Held by this owner already.
    pub held_by_you: usize,
    /// Kept for somebody else.
    pub offered: usize,
    /// Shut for a lock-delay.
    pub cooling: usize,
    /// Shut until a fence of the last tenure is confirmed.
    pub fencing: usize,
    /// Milliseconds until the first of them ends, unless it is renewed.
    #[serde(skip)]
    pub next_ms: Option<u64>,
}

/// Body of `POST /v1/acquire-any`: exactly one of `keys`, `prefix` and `pool`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireAnyBody {
    /// 1 to 10 000 keys, each once.
    pub keys: Option<Vec<String>>,
    /// The keys that have a record and start so.
    pub prefix: Option<String>,
    /// The keys that have a record and are of this pool.
    pub pool: Option<String>,
    /// 1 to 256 bytes.
    pub owner: String,
    /// 100 to 86 400 000, unless set otherwise. Absent where a session keeps the leases.
    pub ttl_ms: Option<u64>,
    /// The id of the session that is to keep the leases, in place of `ttl_ms`.
    pub session: Option<String>,
    /// How many to take at most; 1 by default. `fair`: what the session has yet to get of its share of the
    /// pool that it joined, which `pool` or `keys` name.
    #[serde(default = "one", deserialize_with = "count")]
    #[schema(schema_with = count_schema)]
    pub count: Count,
    /// In which order they are tried.
    #[serde(default, deserialize_with = "word")]
    pub order: AnyOrder,
    /// How long to wait for one when none is free; 0, the default, is not at all.
    #[serde(default)]
    pub wait_ms: u64,
    /// At most 64 bytes. A repeated call finds its own grants, or hears that they ended. A key remembers the last four
    /// request ids that it was granted under; with an older one it is granted anew.
    pub request_id: Option<String>,
}

/// How many leases an acquire-any takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many.
    UpTo(u64),
    /// As many as the session's share of its pool has left.
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
    /// 1 to `count` grants.
    #[schema(value_type = Vec<Grant>)]
    pub grants: Vec<AnyGrant>,
}

/// A grant of this node, or of another one as it came.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of this node")]
pub enum AnyGrant {
    /// This node's.
    Own(Grant),
    /// Another's.
    Others(serde_json::Value),
}

impl AnyGrant {
    /// The key.
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
    /// Its grants.
    pub grants: Vec<serde_json::Value>,
}
