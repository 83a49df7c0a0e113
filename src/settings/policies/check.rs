//! Checks policies whose values have the right types: each by itself, and beside the others, the limits and the plugins.

use std::collections::BTreeSet;

use super::{
    super::{
        fault::Fault,
        listed::ListedTable,
        sections::Limits,
        table::{Row, Section as _},
        units::in_one_unit,
    },
    policy::Policy,
};
use crate::lease::DEFAULT_POOL;

/// The most policies. Each call searches them for the policy of its key.
const MAX_POLICIES: usize = 256;
/// The most pools, not counting `default`. Each has its own metric series.
const MAX_POOLS: usize = 16;

/// Each fault names the policy, the key, and what is wrong. `known_plugins` are the names of the `[[plugin]]` tables.
pub(in crate::settings) fn faults(
    policies: &[Policy],
    limits: &Limits,
    known_plugins: &[String],
) -> Vec<(usize, &'static str, String)> {
    let of = |(at, policy): (usize, &Policy)| {
        let mut found = by_itself(policy);
        found.extend(beside(policy, &policies[..at]));
        found.extend(no_ttl(policy, limits));
        found.extend(unknown_plugins(policy, known_plugins));
        found.into_iter().map(move |(key, problem)| (at, key, problem))
    };
    policies.iter().enumerate().flat_map(of).collect()
}

/// [`faults`], with their places in the file.
pub(in crate::settings) fn placed_faults(
    (policies, tables): (&[Policy], &[ListedTable]),
    limits: &Limits,
    known_plugins: &[String],
) -> Vec<Fault> {
    let found = faults(policies, limits, known_plugins).into_iter();
    found.map(|(at, key, problem)| tables[at].fault(key, problem)).collect()
}

fn by_itself(policy: &Policy) -> Vec<(&'static str, String)> {
    let of = |row: &'static Row<Policy>| {
        row.faults(policy).into_iter().map(move |problem| (row.about.key, problem))
    };
    Policy::ROWS.iter().flat_map(of).collect()
}

/// The faults of a policy that follows these.
fn beside(policy: &Policy, others: &[Policy]) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if others.len() == MAX_POLICIES {
        let problem = format!("is one too many; at most {MAX_POLICIES} policies are allowed");
        found.push(("prefix", problem));
    }
    if others.iter().any(|other| other.prefix == policy.prefix) {
        found.push(("prefix", format!("is {:?}, as that of another policy", policy.prefix)));
    }
    let pools: BTreeSet<&str> =
        others.iter().map(|other| &*other.pool).chain([DEFAULT_POOL]).collect();
    if pools.len() == MAX_POOLS + 1 && !pools.contains(&*policy.pool) {
        found.push(("pool", format!("is one too many; at most {MAX_POOLS} pools are allowed")));
    }
    found
}

fn no_ttl(policy: &Policy, limits: &Limits) -> Option<(&'static str, String)> {
    let [min, max] = policy.ttls(limits);
    if min <= max || (policy.ttl_min.is_none() && policy.ttl_max.is_none()) {
        return None;
    }
    let of_min = policy.ttl_min.map_or("limits.ttl_min", |_| "ttl_min");
    let of_max = policy.ttl_max.map_or("limits.ttl_max", |_| "ttl_max");
    let key = policy.ttl_min.map_or("ttl_max", |_| "ttl_min");
    let [min, max] = [min, max].map(in_one_unit);
    Some((key, format!("leaves no ttl: {of_min} is {min}, and {of_max} is {max}")))
}

fn unknown_plugins(
    policy: &Policy,
    known: &[String],
) -> impl Iterator<Item = (&'static str, String)> {
    let unknown = policy.fence.iter().filter(move |plugin| !known.contains(plugin));
    let say = |plugin: &String| format!("names {plugin:?}, and no [[plugin]] has that name");
    unknown.map(move |plugin| ("fence", say(plugin)))
}
