//! A policy: what holds for the keys under a prefix.

use std::{ops::RangeInclusive, time::Duration};

use config::{ConfigError, Value};

use super::super::{
    sections::{Limits, NUMBERS_OF_KEYS, TTLS},
    table::section,
    value::{Format, Shown},
};
use crate::lease::{
    Balance, DEFAULT_HANDOVER_MS, DEFAULT_MASS_FAILURE_PERCENT, DEFAULT_MIXED_VERSIONS_MS,
    DEFAULT_POOL, DEFAULT_WARMUPS, FenceWhen, LabelRule, MAX_KEY_BYTES, MAX_LABEL_RULES,
    MAX_LOCK_DELAY_MS, MAX_PERMITS, MAX_WARMUPS, OnFenceFailure, Tolerance, check_label_name,
    is_pool_name,
};

/// The allowed time for a fence or a hand-over.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);
const WARMUP_TIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);
const WARMUPS: RangeInclusive<u32> = 1..=MAX_WARMUPS;
const UPGRADES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);
const MASS_FAILURES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
const PERCENT: RangeInclusive<u32> = 1..=100;
const PERMITS: RangeInclusive<u32> = 1..=MAX_PERMITS;
const REJOIN_WINDOWS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3600);
const LOCK_DELAYS: RangeInclusive<Duration> =
    Duration::ZERO..=Duration::from_millis(MAX_LOCK_DELAY_MS as u64);

section! {
    /// One table `[[policy]]`: the settings of the keys with a prefix.
    pub struct Policy {
        /// Prefix of the keys. If several policies match a key, the longest prefix applies; "" matches every key.
        /// Required, and unique.
        prefix: String = String::new(), required = true, if too_long;
        /// Pool of the keys. Its name is the label in metrics, listings and events. Several policies may name the same
        /// pool. 1 to 64 of a-z, 0-9, _ and -. At most 16 pools besides "default", with 104 metric series each.
        pool: String = DEFAULT_POOL.to_owned(), if odd_pool;
        /// Minimum ttl that a caller may request. Omitted: limits.ttl_min applies. A policy may narrow or widen the
        /// limits.
        ttl_min: Option<Duration> = None, example = r#""100ms""#, in TTLS;
        /// Maximum ttl that a caller may request. Omitted: limits.ttl_max applies.
        ttl_max: Option<Duration> = None, example = r#""24h""#, in TTLS;
        /// How long a key stays shut after an expiry.
        lock_delay: Duration = Duration::ZERO, in LOCK_DELAYS;
        /// Names of the plugins that fence the resource of an ended tenure.
        fence: Vec<String> = Vec::new(), if named_twice;
        /// When they run. "before-grant": the key is not granted before all of them confirmed. "after-grant": once the
        /// key is granted again.
        fence_when: FenceWhen = FenceWhen::BeforeGrant;
        /// Maximum time for each plugin, including all its retries.
        fence_timeout: Duration = Duration::from_secs(30), in TIMEOUTS;
        /// What happens if a plugin does not confirm. "block": the key is not granted until an administrator allows it.
        /// "grant-with-alarm": the key is granted, with an event fence-failed.
        on_fence_failure: OnFenceFailure = OnFenceFailure::Block;
        /// Whether plugins also run after a tenure that its owner ended itself.
        fence_on_release: bool = false;
        /// Whether the leases of the pool are balanced over its members. Members are asked to hand over what exceeds
        /// their share. true or "count": each member has as many leases as its weight says. "load": the loads that the
        /// members report are even. A pool is balanced if any policy that names it says so, and by load if one does.
        balance: Balance = Balance::No;
        /// For balance = "load": how far the load of a member may be from the mean before leases move. "tight" is 2.5 %,
        /// "default" 10 %, "loose" 40 %. The least of the policies that name the pool applies.
        tolerance: Tolerance = Tolerance::Default;
        /// Labels that a member must have to be given a key of this policy. Each is NAME=VALUE, NAME!=VALUE, NAME or !NAME; a
        /// member must meet all. A key whose requirements no member meets stays free.
        require: Vec<String> = Vec::new(), if odd_requirements;
        /// Which members come first, in the same forms: of the members that may have a key and have room, those that meet
        /// the earlier ones.
        prefer: Vec<String> = Vec::new(), if odd_preferences;
        /// Name of the label over whose values the keys of this policy are spread evenly. The members without the label
        /// count as one more value. "" spreads them over nothing.
        spread: String = String::new(), if odd_spread;
        /// How long a holder that is asked to hand over a lease may take before the lease is revoked. A session that
        /// leaves has the longest timeout of its pool.
        handover_timeout: Duration = Duration::from_millis(DEFAULT_HANDOVER_MS), in TIMEOUTS;
        /// How long the next holder of a lease may prepare before the present one is asked to hand it over, on a planned
        /// move: by balance, by an order or by a drain. A session that leaves has so much more time. The longest time of
        /// the policies that name the pool applies. 0 asks at once.
        warmup_timeout: Duration = Duration::ZERO, in WARMUP_TIMES;
        /// How many leases of the pool may be prepared for at once, until each has its next holder. The lowest number of
        /// the policies that name the pool and set warmup_timeout applies.
        warmups: u32 = DEFAULT_WARMUPS, in WARMUPS;
        /// How long the keys of a member that stopped or crashed, and did not drain, are kept for a member with the same
        /// owner. With it, one session of an owner counts as a member: the newest. The longest window of the policies
        /// that name the pool applies. 0 lets other members take the keys at once, or after the lock-delay.
        rejoin_window: Duration = Duration::ZERO, in REJOIN_WINDOWS;
        /// How long an upgrade of the members may take. While the pool has members of two versions, and for this time at
        /// most, keys that come free go to the newest version, and nothing is moved between members that stay. The
        /// longest time of the policies that name the pool applies. 0 ignores versions.
        mixed_versions: Duration = Duration::from_millis(DEFAULT_MIXED_VERSIONS_MS), in UPGRADES;
        /// If a pool loses many of its members within this time, the others get no more than the share that they had
        /// before, until the members are back or an operator ends it. The longest time of the policies that name the
        /// pool applies. 0 lets the others take everything.
        mass_failure_within: Duration = Duration::ZERO, in MASS_FAILURES;
        /// How many members are many, in percent of the members; at least 2. The lowest number of the policies that
        /// name the pool applies.
        mass_failure_percent: u32 = DEFAULT_MASS_FAILURE_PERCENT, in PERCENT;
        /// Maximum number of keys under this policy. A key counts until `tenure forget` has forgotten it and its record
        /// is removed, some minutes later. A new key beyond the limit is refused with 507 `too-many-keys`; existing
        /// keys never are. Coordinators of a shared store that add keys at the same moment may exceed it slightly.
        /// Omitted: limits.keys applies.
        keys: Option<u64> = None, example = "5000000", in NUMBERS_OF_KEYS;
        /// How many permits each key has. With more than 1, the key KEY stands for the leases KEY#1, KEY#2 and so on, and
        /// an acquire of it takes one of these. See docs/permits.md.
        permits: u32 = 1, in PERMITS;
    }
}

impl Policy {
    /// The bounds of a ttl. Those of a policy may be wider or narrower than the limits.
    pub(super) fn ttls(&self, limits: &Limits) -> [Duration; 2] {
        [self.ttl_min.unwrap_or(limits.ttl_min), self.ttl_max.unwrap_or(limits.ttl_max)]
    }
}

fn odd_requirements(policy: &Policy) -> Vec<String> {
    odd_rules(&policy.require, true)
}

fn odd_preferences(policy: &Policy) -> Vec<String> {
    odd_rules(&policy.prefer, false)
}

fn odd_rules(rules: &[String], must_all_be_met: bool) -> Vec<String> {
    if rules.len() > MAX_LABEL_RULES {
        return vec![format!("has {} entries; at most {MAX_LABEL_RULES} are allowed", rules.len())];
    }
    let (mut read, mut found) = (Vec::new(), Vec::new());
    for rule in rules {
        match LabelRule::parse(rule) {
            Ok(rule) => read.push(rule),
            Err(fault) => found.push(fault),
        }
    }
    for (at, one) in read.iter().enumerate() {
        for other in &read[at + 1..] {
            if one == other {
                found.push(format!("has {one} twice"));
            } else if must_all_be_met && one.excludes(other) {
                found.push(format!("has {one} and {other}, which no member meets both"));
            }
        }
    }
    found
}

fn odd_spread(policy: &Policy) -> Option<String> {
    let named = Some(&policy.spread).filter(|name| !name.is_empty());
    named.and_then(|name| check_label_name(name).err())
}

fn too_long(policy: &Policy) -> Option<String> {
    let long = policy.prefix.len() > MAX_KEY_BYTES;
    long.then(|| format!("is longer than any key: {MAX_KEY_BYTES} bytes"))
}

fn odd_pool(policy: &Policy) -> Option<String> {
    let odd = !is_pool_name(&policy.pool);
    odd.then(|| "must be 1 to 64 of a-z, 0-9, _ and -".to_owned())
}

fn named_twice(policy: &Policy) -> Vec<String> {
    let twice =
        policy.fence.iter().enumerate().filter(|(at, name)| policy.fence[..*at].contains(name));
    twice.map(|(_, name)| format!("names {name:?} twice")).collect()
}

const WHEN: [(&str, FenceWhen); 2] =
    [("before-grant", FenceWhen::BeforeGrant), ("after-grant", FenceWhen::AfterGrant)];
const ON_FAILURE: [(&str, OnFenceFailure); 2] =
    [("block", OnFenceFailure::Block), ("grant-with-alarm", OnFenceFailure::GrantWithAlarm)];

impl Format for FenceWhen {
    fn read(value: Value) -> Result<Self, ConfigError> {
        choice(value, &WHEN)
    }

    fn show(&self) -> Shown {
        name_of(*self, &WHEN)
    }
}

impl Format for OnFenceFailure {
    fn read(value: Value) -> Result<Self, ConfigError> {
        choice(value, &ON_FAILURE)
    }

    fn show(&self) -> Shown {
        name_of(*self, &ON_FAILURE)
    }
}

const TOLERANCES: [(&str, Tolerance); 3] =
    [("tight", Tolerance::Tight), ("default", Tolerance::Default), ("loose", Tolerance::Loose)];
const BALANCES: [(&str, Balance); 2] = [("count", Balance::Count), ("load", Balance::Load)];

impl Format for Tolerance {
    fn read(value: Value) -> Result<Self, ConfigError> {
        choice(value, &TOLERANCES)
    }

    fn show(&self) -> Shown {
        name_of(*self, &TOLERANCES)
    }
}

/// True and false, or a name.
impl Format for Balance {
    fn read(value: Value) -> Result<Self, ConfigError> {
        match bool::read(value.clone()) {
            Ok(true) => Ok(Self::Count),
            Ok(false) => Ok(Self::No),
            Err(_) => choice(value, &BALANCES),
        }
    }

    fn show(&self) -> Shown {
        match self {
            Self::Load => name_of(*self, &BALANCES),
            other => Shown::Plain((*other == Self::Count).to_string()),
        }
    }
}

/// Reads one of these names.
fn choice<T: Copy>(value: Value, names: &[(&str, T)]) -> Result<T, ConfigError> {
    let given = String::read(value)?;
    let found = names.iter().find(|(name, _)| *name == given);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let names: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
        let expected = names.join(" or ");
        ConfigError::Message(format!("invalid value: string {given:?}, expected {expected}"))
    })
}

fn name_of<T: PartialEq>(value: T, names: &[(&str, T)]) -> Shown {
    let name = names.iter().find(|(_, named)| *named == value).map_or("", |(name, _)| name);
    Shown::Text(name.to_owned())
}
