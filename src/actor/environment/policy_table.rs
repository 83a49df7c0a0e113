//! The policy table: the policies in effect, each with the metrics of its pool.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    lease::{MassFailure, Named, PlaceTable, Policies, Policy, Rules, Warmups},
    telemetry::PoolMetrics,
};

/// The policies at one moment. They are replaced as a whole, so readers take no lock.
pub struct PolicyTable {
    policies: Arc<Policies>,
    /// The metrics of each policy's pool, in the order of the policies. Policies of one pool share them.
    metrics: Box<[Arc<PoolMetrics>]>,
    /// How many tables preceded this one.
    version: u64,
}

impl PolicyTable {
    /// A table of these policies. The series of their pools exist from now on.
    pub(in crate::actor) fn new(policies: Arc<Policies>, version: u64) -> Self {
        let mut pools = BTreeMap::new();
        let mut of_pool = |policy: &Arc<Policy>| {
            let register = || PoolMetrics::register(&policy.pool);
            Arc::clone(pools.entry(policy.pool.clone()).or_insert_with(register))
        };
        let metrics = policies.iter().map(&mut of_pool).collect();
        Self { policies, metrics, version }
    }

    /// How many tables preceded this one.
    pub(in crate::actor) fn version(&self) -> u64 {
        self.version
    }

    /// The policy of a key, and the metrics of its pool.
    #[must_use]
    pub fn of(&self, key: &str) -> (&Arc<Policy>, &Arc<PoolMetrics>) {
        let mut all = self.policies.iter().zip(&self.metrics);
        all.find(|(policy, _)| key.starts_with(&*policy.prefix)).expect("the last fits every key")
    }

    /// The metrics of a pool, by its name.
    #[must_use]
    pub fn named(&self, pool: &str) -> Option<&Arc<PoolMetrics>> {
        let mut all = self.policies.iter().zip(&self.metrics);
        all.find(|(policy, _)| *policy.pool == *pool).map(|(_, metrics)| metrics)
    }

    /// The names of all pools, each once.
    #[must_use]
    pub fn pools(&self) -> BTreeSet<Arc<str>> {
        self.policies.iter().map(|policy| policy.pool.clone()).collect()
    }

    /// Whether the leases of a pool are moved between its members.
    #[must_use]
    pub fn balances(&self, pool: &str) -> bool {
        self.policies.balances(pool)
    }

    /// How far the loads of a pool's members may be from their mean, as a part of it. `None` if its leases are not moved by
    /// load.
    #[must_use]
    pub fn load_tolerance(&self, pool: &str) -> Option<f64> {
        self.policies.load_tolerance(pool)
    }

    /// Where the keys of a pool go; `None` if its policies do not say so.
    #[must_use]
    pub fn places(&self, pool: &str, rules: Rules) -> Option<PlaceTable> {
        PlaceTable::of_pool(&self.policies, pool, rules)
    }

    /// How long the keys of a member of a pool that went are kept for its owner, in milliseconds.
    #[must_use]
    pub fn rejoin_window_ms(&self, pool: &str) -> u32 {
        self.policies.rejoin_window_ms(pool)
    }

    /// Whether the members of a pool come back to their keys.
    #[must_use]
    pub fn returns(&self, pool: &str) -> bool {
        self.rejoin_window_ms(pool) > 0
    }

    /// How long the members of a pool may have two versions before that no longer counts, in milliseconds.
    #[must_use]
    pub fn mixed_versions_ms(&self, pool: &str) -> u64 {
        self.policies.mixed_versions_ms(pool)
    }

    /// How the members of a pool prepare for keys before planned moves. `None` if they do not.
    #[must_use]
    pub fn warmups(&self, pool: &str) -> Option<Warmups> {
        self.policies.warmups(pool)
    }

    /// What counts as a mass failure of a pool.
    #[must_use]
    pub fn mass_failure(&self, pool: &str) -> Option<MassFailure> {
        self.policies.mass_failure(pool)
    }

    /// Whether a key belongs to a pool. One that has permits does not: they do.
    #[must_use]
    pub fn is_of(&self, key: &str, pool: &str) -> bool {
        let policy = self.of(key).0;
        *policy.pool == *pool && policy.named(key) == Named::Lease
    }

    /// Where to look for the keys of a pool that begin with `prefix`: prefixes in byte order, none of which covers
    /// another one. Keys of other pools may be among what they find.
    #[must_use]
    pub fn ranges(&self, pool: &str, prefix: &str) -> Vec<String> {
        let common = |policy: &Arc<Policy>| {
            let own = &*policy.prefix;
            let longer = if own.len() > prefix.len() { (own, prefix) } else { (prefix, own) };
            longer.0.starts_with(longer.1).then(|| longer.0.to_owned())
        };
        let of_pool = self.policies.iter().filter(|policy| *policy.pool == *pool);
        let mut ranges: Vec<String> = of_pool.filter_map(common).collect();
        ranges.sort_unstable();
        // A prefix sorts right before what it covers.
        ranges.dedup_by(|later, kept| later.starts_with(kept.as_str()));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_pool_are_looked_for_under_its_prefixes_alone() {
        let policy = |prefix: &str, pool: &str| Policy {
            prefix: prefix.into(),
            pool: pool.into(),
            ..Policy::default()
        };
        let all = vec![
            policy("jobs/", "jobs"),
            policy("jobs/big/", "big"),
            policy("jobs/big/x", "jobs"),
            policy("cron/", "jobs"),
        ];
        let table = PolicyTable::new(Arc::new(Policies::new(all, Policy::default())), 0);
        assert_eq!(table.ranges("jobs", ""), ["cron/", "jobs/"]);
        assert_eq!(table.ranges("jobs", "jobs/b"), ["jobs/b"]);
        assert_eq!(table.ranges("jobs", "c"), ["cron/"]);
        assert_eq!(table.ranges("big", ""), ["jobs/big/"]);
        assert_eq!(table.ranges("big", "cron/"), [""; 0]);
        assert_eq!(table.ranges("default", ""), [""]);
        assert_eq!(table.ranges("default", "jobs/"), ["jobs/"]);
        assert_eq!(table.ranges("none", ""), [""; 0]);
        assert!(table.is_of("jobs/big/xy", "jobs") && table.is_of("jobs/big/y", "big"));
        assert!(table.is_of("job", "default"));
    }
}
