//! What somebody on call needs to know, and what happened lately.
//!
//! What is said of *the store* is the same at each of its nodes, as far as that node has heard. What stands under
//! `this_node` is of the answering node alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that needs a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Attention {
    /// What it is: `fence-failed`, `store-frozen`, `store-not-ready`, `node-may-not-promise`, `node-dead`, `node-lapsed`, `clock-jumped`,
    /// `free-with-waiters`, `pool-guarded`, `pool-frozen`, `pool-unplaced`, `pool-uneven`, `pool-churning`, `check-failing`, `expiry-late`, `expiries-many`, `address-shared`,
    /// `rules-differ`, `access-differs`, `access-not-in-force`, `tls-not-in-force`,
    /// `settings-not-in-force`, `restart-needed`, `revocations-unread`, `revocations-went-back`, `revocations-nearly-full`, `certificate-expired`, `certificate-not-yet-valid`, `certificate-expires`,
    /// `audit-lost`, `audit-gap`, `open-door` or `stopping`. Later versions may add more.
    pub kind: String,
    /// `critical`: something stands still, or is not protected; `warning`: it may soon.
    pub severity: String,
    /// `store`: each node of the store says so; `node`: the answering node alone knows of it.
    pub scope: String,
    /// One sentence, for people.
    pub says: String,
    /// The command or the setting that helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Since when, in RFC 3339 form, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// For how long, in milliseconds, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// The key that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The pool of the key, or the pool that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The URL of the node that it is about, or the node's incarnation if it has no URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The plugins that did not confirm, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The digest of the session that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The owner that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What the cause said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many things it stands for, if it stands for several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The number of callers that wait for the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiters: Option<u64>,
}

/// How many keys of the store are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct KeyCounts {
    /// Keys that an owner holds.
    pub held: u64,
    /// Keys that nobody holds, and that are open.
    pub free: u64,
    /// Keys that are reserved for one owner.
    pub offered: u64,
    /// Keys that a lock-delay keeps closed.
    pub cooling: u64,
    /// Keys that stay closed until a fence is confirmed.
    pub fencing: u64,
    /// Keys with a fence that failed for good.
    pub fences_failed: u64,
    /// How old the counts are, in milliseconds. 0 unless the store is DynamoDB: there, keys are counted when somebody looks,
    /// in the background.
    pub age_ms: u64,
    /// How long that count took, in milliseconds.
    pub took_ms: u64,
}

/// What is known of the whole store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct StoreStatus {
    /// The kind of the store: `embedded`, `nats` or `dynamodb`.
    pub kind: String,
    /// `ready`; `degraded`: it accepts no writes for now; `frozen`: nothing is granted until somebody acts.
    pub health: String,
    /// How many keys are in each state. Null while they could not be counted.
    pub keys: Option<KeyCounts>,
    /// How many nodes are alive, drained and dead, the answering one included. One alive where the store is not shared.
    pub nodes: NodeCounts,
}

/// How many nodes are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct NodeCounts {
    /// Nodes that keep their records alive.
    pub alive: u64,
    /// Nodes that left in good order, and at whose addresses no node is alive.
    pub drained: u64,
    /// Nodes whose records ran out, and at whose addresses no node is alive.
    pub dead: u64,
}

/// What is known of the node that answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct NodeStatus {
    /// Its URL.
    pub url: String,
    /// The version of the program that it runs.
    pub version: String,
    /// Whether traffic may be sent to it.
    pub ready: bool,
    /// Why not; empty if it is ready.
    pub reasons: Vec<String>,
    /// The number of leases whose home node it is.
    pub leases: u64,
    /// The number of places in queues of keys that callers occupy. A caller that waits for one of several keys occupies
    /// several.
    pub waiting: u64,
    /// The writes of its leases that the store has not settled.
    pub writes_waiting: u64,
    /// What it measured in the last minute.
    pub last_minute: Measured,
}

/// What a node measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Measured {
    /// How many leases it adopted from dead nodes.
    pub adopted: u64,
    /// How long keys were without an owner. A hand-over counts as 0.
    pub vacancy: Spans,
    /// How long tenures lasted.
    pub hold: Spans,
    /// How long after their deadlines tenures ended.
    pub lateness: Spans,
}

/// A distribution of spans of time. A percentile is at most a quarter, or 1 ms, above the true one, and never below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Spans {
    /// How many spans there were. Without one, the others are 0.
    pub count: u64,
    /// The span that half of them did not exceed, in milliseconds.
    pub p50_ms: u64,
    /// The span that 99 % of them did not exceed, in milliseconds.
    pub p99_ms: u64,
    /// The longest one, in milliseconds.
    pub longest_ms: u64,
}

/// Answer of `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Status {
    /// When the answer was made, in RFC 3339 form.
    pub at: String,
    /// The highest severity in `attention`: `critical` or `warning`; `none` if nothing needs a person.
    pub severity: String,
    /// What needs a person, the most severe first.
    pub attention: Vec<Attention>,
    /// How many more there are that the list has no room for.
    pub more: u64,
    /// What is known of the whole store.
    pub store: StoreStatus,
    /// What is known of the node that answers, and of it alone.
    pub this_node: NodeStatus,
    /// How often keys of the store changed in the last minute, by cause: the short types of the events. Causes without
    /// a change are left out.
    pub last_minute: BTreeMap<String, u64>,
}

/// What happened in a slice of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct SeriesPoint {
    /// When it began, in RFC 3339 form.
    pub at: String,
    /// How often keys of the store changed, by cause: the short types of the events. Causes without a change are left
    /// out.
    pub changes: BTreeMap<String, u64>,
    /// What the answering node measured.
    pub this_node: Measured,
}

/// Answer of `GET /v1/status/series`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Series {
    /// The length of a slice, in milliseconds.
    pub step_ms: u64,
    /// The slices without a gap, oldest first: 60 at most, and none from before the node began. The last one is not
    /// over.
    pub points: Vec<SeriesPoint>,
}
