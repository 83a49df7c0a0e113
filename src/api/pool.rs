//! Pools and their members. A client reads the fields that an older coordinator lacks as their defaults.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Who ordered something for a pool, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct OrderedBy {
    /// The author: a principal and its address, or `tenure`.
    pub by: String,
    /// The author's reason.
    pub reason: String,
    /// The time by the clock of the coordinator that stored it, in RFC 3339 form.
    pub at: String,
    /// When it ends by itself, in RFC 3339 form; null if it lasts until it is ended.
    #[serde(default)]
    pub until: Option<String>,
}

/// An owner whose members get no further keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct CordonedOwner {
    /// The owner.
    pub owner: String,
    /// Who ordered it, and why.
    #[serde(flatten)]
    pub ordered: OrderedBy,
}

/// A key that no member is to have, or none but that of one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PausedKey {
    /// The key.
    pub key: String,
    /// The owner whose member is to have it; null if no member is.
    #[serde(default)]
    pub to: Option<String>,
    /// Who ordered it, and why.
    #[serde(flatten)]
    pub ordered: OrderedBy,
}

/// A key that one member holds and another one prepares for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct WarmingKey {
    /// The key.
    pub key: String,
    /// The owner that holds it; null if that member is gone.
    #[serde(default)]
    pub from: Option<String>,
    /// The owner that prepares for it; null if that member is gone.
    #[serde(default)]
    pub to: Option<String>,
    /// The digest of the session that prepares for it.
    pub session: String,
    /// When the preparation began, by the clock of the coordinator that ordered it, in RFC 3339 form.
    pub since: String,
    /// Whether the member said that it is prepared.
    pub prepared: bool,
    /// Whether the holder was asked to hand the key over.
    pub requested: bool,
}

/// A guard against a mass failure: the pool lost many members at once, and the others get no more than their former
/// shares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PoolGuard {
    /// The time at which the failure was noticed, in RFC 3339 form.
    pub at: String,
    /// The number of members before.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub members: u64,
    /// The guard ends when fewer than this number of members are missing.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub least: u64,
}

/// A key that nobody holds and that has no member to go to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UnplacedKey {
    /// The key.
    pub key: String,
    /// Why: `require`: no member has the labels that its policy requires. `capacity` or `load-limit`: those that may have it
    /// accept no more. `set-aside`: those with room ask for no leases. `cordoned`: their owners are cordoned. `guard`: a
    /// guard against a mass failure stands. `frozen`: the pool is frozen. `paused`: the key is paused. `kept`: it is kept
    /// for its last owner. `no-member`: nobody takes leases. Later versions may add more.
    pub why: String,
}

/// The keys of a pool that nobody holds and that have no member to go to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct UnplacedKeys {
    /// How many there are.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub total: u64,
    /// How many there are for each reason.
    pub whys: BTreeMap<String, u64>,
    /// The first 100 of them, in the order of their names.
    pub keys: Vec<UnplacedKey>,
}

/// A session that joined a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PoolMember {
    /// The digest of the session.
    pub session: String,
    /// The owner of the session.
    pub owner: String,
    /// The weight of the member. Members with a higher weight have a larger share.
    #[cfg_attr(feature = "server", schema(value_type = u32))]
    pub weight: u64,
    /// The most leases of the pool that the member accepts at a time; null if only its share limits it.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<u32>))]
    pub capacity: Option<u64>,
    /// The number of leases of the pool that it holds.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub held: u64,
    /// The number of leases of the pool that it should hold.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub share: u64,
    /// Whether the member is leaving and must hand over all its leases.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub draining: bool,
    /// The number of leases that it was asked to hand over and still holds.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = usize, required))]
    pub handovers: u64,
    /// Whether the member left its share untaken. Until it asks for leases, its share is what it holds, and the other
    /// members get the rest.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub set_aside: bool,
    /// Whether a newer session of the same owner is the member instead, in a pool whose members come back to their keys.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub replaced: bool,
    /// Whether the member gets no further keys, by order of an operator.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub cordoned: bool,
    /// Whether the member is not ready, so that it has no share.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub unready: bool,
    /// The version of the program that it runs; null if it did not say.
    #[serde(default)]
    pub version: Option<String>,
    /// Where it serves its keys; null if it did not say.
    #[serde(default)]
    pub address: Option<String>,
    /// Its labels.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub labels: BTreeMap<String, String>,
    /// The load of the leases that it holds, in the unit that members report; null if the pool is not balanced by load.
    #[serde(default)]
    pub load: Option<f64>,
    /// The highest load that the member accepts; null if it did not say.
    #[serde(default)]
    pub load_limit: Option<f64>,
    /// The URL of the session's home node; null if the answering node does not know it yet.
    #[serde(default)]
    pub node: Option<String>,
}

/// A pool and its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = PoolWire))]
pub struct Pool {
    /// The name of the pool.
    pub pool: String,
    /// Whether the pool's leases are moved between its members.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub balance: bool,
    /// Whether they move by the loads that members report, and not by their number.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub by_load: bool,
    /// The number of keys that members hold or nobody holds. Keys of other owners do not count. Null while the keys are
    /// not counted: no session joined the pool, or the node has just begun to count.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<usize>))]
    pub keys: Option<u64>,
    /// The number of keys that nobody holds, including those that are closed or reserved. Null while the keys are not
    /// counted.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<usize>))]
    pub free: Option<u64>,
    /// The number of these keys that are kept for a member that went, in a pool whose members come back to their keys.
    /// Null while the keys are not counted.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(value_type = Option<usize>))]
    pub kept: Option<u64>,
    /// The keys that nobody holds and that have no member to go to. Null while the keys are not counted.
    #[serde(default)]
    pub unplaced: Option<UnplacedKeys>,
    /// Who froze the pool: no key changes its member. Null if it is not frozen.
    #[serde(default)]
    pub frozen: Option<OrderedBy>,
    /// The owners whose members get no further keys, in the order of their names.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub cordoned: Vec<CordonedOwner>,
    /// The keys that no member is to have, or none but that of one owner, in the order of their names.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub paused: Vec<PausedKey>,
    /// The keys that members prepare for before planned moves, in the order of their names.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub warming: Vec<WarmingKey>,
    /// The guard against a mass failure. Null if none stands.
    #[serde(default)]
    pub guard: Option<PoolGuard>,
    /// Whether the pool is being balanced exactly and at once, by order of an operator.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(required))]
    pub rebalancing: bool,
    /// What the most loaded member carries for its weight, divided by the mean of the members; null if the pool is not
    /// balanced by load.
    #[serde(default)]
    pub load_peak: Option<f64>,
    /// The members, in the order of their sessions' digests.
    pub members: Vec<PoolMember>,
}

/// Answer of `GET /v1/pools`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema), schema(as = PoolsWire))]
pub struct Pools {
    /// Every pool that a policy names, and `default`, in the order of their names.
    pub pools: Vec<Pool>,
}

/// A lease that its holder would be asked to hand over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PlannedMove {
    /// The key of the lease.
    pub key: String,
    /// The digest of the session that holds it.
    pub session: String,
    /// The owner of the session.
    pub owner: String,
    /// `surplus`: the member holds more than its share. `load`: the move makes loads more even. `drain`: the member is
    /// leaving. `require`: it does not have the labels that the policy requires. `spread`: the keys of the policy are not
    /// spread evenly. `prefer`: another member is preferred.
    pub reason: String,
    /// The reason as a sentence, with the numbers.
    pub detail: String,
}

/// Answer of `GET /v1/pools/{pool}/plan`: what would be done now for the balance of the pool. Nothing is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct PoolPlan {
    /// The pool as it is, with the share of each member.
    #[serde(flatten)]
    pub pool: Pool,
    /// The number of leases that must move until every member has its share, or until loads are even. Null while the keys are not counted.
    #[cfg_attr(feature = "server", schema(value_type = Option<usize>))]
    pub imbalance: Option<u64>,
    /// The leases that would be asked for now, in the order of their keys; at most 1000. A pool that is not balanced has
    /// those that would be asked for if it were.
    pub moves: Vec<PlannedMove>,
    /// The number of leases that would be asked for now beyond those in `moves`.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub more_moves: u64,
    /// The number of leases that their members have too many, but that are not asked for now: they were granted in the
    /// last 10 s, or the policy of their keys does not move them.
    #[cfg_attr(feature = "server", schema(value_type = usize))]
    pub put_off: u64,
}
