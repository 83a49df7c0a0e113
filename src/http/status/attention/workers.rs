//! Keys, pools and sessions.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    entry::{CRITICAL, WARNING, count, of_node, of_store},
    facts::Facts,
};
use crate::{
    api::Attention,
    http::status::quoted::{argument, quoted},
    lease::KeyState,
    manager::{
        ChurningPool, FailedFence, FailingCheck, GuardedPool, OFTEN, StuckKey, UnevenPool,
        UnplacedPool,
    },
};

/// A pool may be out of balance for this long.
const UNEVEN: Duration = Duration::from_secs(60);
/// Keys may have no member to go to for this long: members come one after the other.
const UNPLACED: Duration = Duration::from_secs(10);
/// So many keys whose fences failed for one reason have an entry each. More of them have one together.
const SINGLE: usize = 5;

/// What needs a person, of keys, pools and sessions.
pub fn attention(facts: &Facts) -> Vec<Attention> {
    let mut found = fences(facts);
    found.extend(more_fences(facts));
    found.extend(facts.stuck.listed.iter().map(|key| stuck(facts, key)));
    found.extend(hidden_stuck(facts));
    found.extend(facts.guarded.iter().map(guarded));
    found.extend(facts.frozen.iter().map(frozen));
    let unplaced = facts.unplaced.iter().filter(|pool| facts.now.since(pool.since) > UNPLACED);
    found.extend(unplaced.map(|pool| without_member(facts, pool)));
    let uneven = facts.pools.iter().filter(|pool| facts.now.since(pool.since) > UNEVEN);
    found.extend(uneven.map(|pool| out_of_balance(facts, pool)));
    found.extend(facts.churning.iter().map(churning));
    found.extend(facts.checks.0.iter().map(|one| check(facts, one)));
    found.extend(more_checks(facts));
    found
}

/// One entry for each key. Where many keys of a pool failed for the same reason, one entry stands for all of them.
fn fences(facts: &Facts) -> Vec<Attention> {
    let mut alike: BTreeMap<_, Vec<Attention>> = BTreeMap::new();
    for entry in facts.fences.listed.iter().map(|failed| fence(facts, failed)) {
        let same =
            (entry.severity.clone(), entry.pool.clone(), entry.reason.clone(), entry.node.clone());
        alike.entry(same).or_default().push(entry);
    }
    let single = |entries: &Vec<Attention>| entries.len() <= SINGLE;
    let (few, many): (Vec<_>, Vec<_>) = alike.into_values().partition(single);
    many.into_iter().map(together).chain(few.into_iter().flatten()).collect()
}

/// The entry that stands for several keys of one pool.
fn together(entries: Vec<Attention>) -> Attention {
    let (all, longest) = (entries.len(), entries.iter().map(|one| one.for_ms).max().flatten());
    let one = entries.into_iter().find(|one| one.for_ms == longest).unwrap_or_default();
    let pool = one.pool.as_deref().unwrap_or_default();
    let why = one.reason.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    let follows = if one.severity == CRITICAL {
        "nobody is granted the keys until the fences are confirmed, or an administrator skips them"
    } else {
        "the keys went on, and their former owners may still use the resources"
    };
    let log = log_of(one.node.as_deref());
    let says = format!("the fences of {all} keys of the pool {pool:?} failed{why}: {follows}{log}");
    let which = match one.plugin.as_deref() {
        Some(plugin) if !plugin.contains(", ") => format!("--plugin={}", quoted(plugin)),
        _ => "--prefix=".to_owned(),
    };
    let help = format!("repair what failed, then: tenure fence-retry --reason WHY {which}");
    Attention {
        says,
        help: Some(help),
        count: Some(all as u64),
        key: None,
        owner: None,
        waiters: None,
        ..one
    }
}

fn fence(facts: &Facts, failed: &FailedFence) -> Attention {
    let FailedFence { key, pool, view, at_ms, reason } = failed;
    let state = view.as_ref().map(|view| view.state);
    let reason = reason.as_deref();
    let why = reason.map(|why| format!(" ({why})")).unwrap_or_default();
    let (severity, follows) = match state {
        None | Some(KeyState::Fencing) => (
            CRITICAL,
            "nobody is granted the key until the fence is confirmed, or an administrator skips it",
        ),
        Some(_) => (WARNING, "the key went on, and its former owner may still use the resource"),
    };
    let key = key.as_str();
    let plugins = view.as_ref().map(|view| view.fences.join(", ")).filter(|it| !it.is_empty());
    let owner = view.as_ref().and_then(|view| view.fenced.as_ref());
    let owner = owner.map(|owner| owner.as_str().to_owned());
    let against = owner.as_ref().map(|owner| format!(" against {owner:?}")).unwrap_or_default();
    let node = view.as_ref().and_then(|view| facts.url_of(view.node?));
    let log = log_of(node.as_deref());
    let says = format!("the fence of {key:?}{against} failed{why}: {follows}{log}");
    let help =
        format!("repair what failed, then: tenure fence-retry --reason WHY {}", argument(key));
    let entry = Attention {
        help: Some(help),
        key: Some(key.to_owned()),
        pool: Some(pool.to_string()),
        plugin: plugins,
        node,
        owner,
        reason: reason.map(str::to_owned),
        waiters: view.as_ref().map(|view| view.waiters as u64),
        ..of_store("fence-failed", severity, says)
    };
    match at_ms {
        Some(at_ms) => facts.since_ms(*at_ms, entry),
        None => entry,
    }
}

/// Where a person finds what the plugin said.
fn log_of(node: Option<&str>) -> String {
    node.map(|node| format!("; the log of {node} has more")).unwrap_or_default()
}

/// Those that the list has no room for, and those that the caller may not read.
fn more_fences(facts: &Facts) -> Vec<Attention> {
    let mut found = Vec::new();
    let (more, hidden) = (facts.fences.more, facts.fences.hidden);
    if more > 0 {
        let keys = count(more, "more key has a fence", "more keys have fences");
        let help = Some("tenure ls --state fencing".to_owned());
        let entry = of_store("fence-failed", CRITICAL, format!("{keys} that failed"));
        found.push(Attention { help, count: Some(more as u64), ..entry });
    }
    if hidden > 0 {
        let keys = count(
            hidden,
            "key that you may not read has a fence",
            "keys that you may not read have fences",
        );
        let help = Some("ask somebody with the right to read them".to_owned());
        let entry = of_store("fence-failed", CRITICAL, format!("{keys} that failed"));
        found.push(Attention { help, count: Some(hidden as u64), ..entry });
    }
    found
}

fn stuck(facts: &Facts, StuckKey { key, pool, since }: &StuckKey) -> Attention {
    let says = format!("{key:?} is free although callers wait for it at this node");
    let entry = Attention {
        help: Some(format!("tenure get {}", argument(key.as_str()))),
        key: Some(key.as_str().to_owned()),
        pool: Some(pool.to_string()),
        ..of_node("free-with-waiters", CRITICAL, says)
    };
    facts.since(*since, entry)
}

fn hidden_stuck(facts: &Facts) -> Option<Attention> {
    let others = facts.stuck.others;
    let keys = count(others, "more key is free", "more keys are free");
    let says = format!("{keys} although callers wait at this node");
    let entry = of_node("free-with-waiters", CRITICAL, says);
    (others > 0).then_some(Attention { count: Some(others as u64), ..entry })
}

fn guarded(GuardedPool { pool, members, left, for_ms }: &GuardedPool) -> Attention {
    let says = format!(
        "the pool {pool:?} lost many of its {members} members at once, and has {left} now: they get no more than their \
         former shares"
    );
    let help = format!("tenure pools {0}; tenure pool end-guard {0} --reason …", argument(pool));
    Attention {
        help: Some(help),
        pool: Some(pool.to_string()),
        for_ms: Some(*for_ms),
        ..of_store("pool-guarded", CRITICAL, says)
    }
}

fn frozen((pool, free, for_ms): &(Arc<str>, usize, u64)) -> Attention {
    let keys = count(*free, "key", "keys");
    let says = format!("the pool {pool:?} is frozen, and {keys} without an owner stay without one");
    Attention {
        help: Some(format!("tenure pool thaw {} --reason …", argument(pool))),
        pool: Some(pool.to_string()),
        count: Some(*free as u64),
        for_ms: Some(*for_ms),
        ..of_store("pool-frozen", WARNING, says)
    }
}

fn without_member(
    facts: &Facts,
    UnplacedPool { pool, since, unmet, no_room }: &UnplacedPool,
) -> Attention {
    let all = unmet + no_room;
    let mut whys = Vec::new();
    if *unmet > 0 {
        whys.push(format!("no member has the labels that the policy requires ({unmet})"));
    }
    if *no_room > 0 {
        whys.push(format!("the members that may have them accept no more ({no_room})"));
    }
    let keys = count(all, "key", "keys");
    let says = format!("{keys} of the pool {pool:?} cannot go to any member: {}", whys.join("; "));
    let entry = Attention {
        help: Some(format!("tenure pools {}", argument(pool))),
        pool: Some(pool.to_string()),
        count: Some(all as u64),
        ..of_store("pool-unplaced", WARNING, says)
    };
    facts.since(*since, entry)
}

fn churning(ChurningPool { pool, keys, grants }: &ChurningPool) -> Attention {
    let these = count(*keys, "key", "keys");
    let says = format!(
        "members of the pool {pool:?} do not keep its keys: {these} changed hands {OFTEN} times or more in the last 10 \
         minutes, {grants} times together"
    );
    let help =
        "tenure top --by owners --window 10m; the log of such a member says why its program ends";
    Attention {
        help: Some(help.to_owned()),
        pool: Some(pool.to_string()),
        count: Some(*keys as u64),
        ..of_store("pool-churning", WARNING, says)
    }
}

fn out_of_balance(
    facts: &Facts,
    UnevenPool { pool, since, moves, members }: &UnevenPool,
) -> Attention {
    let leases = count(*moves, "lease", "leases");
    let members = count(*members, "member", "members");
    let says = format!(
        "the pool {pool:?} with {members} has been out of balance for more than a minute: {leases} must move"
    );
    let entry = Attention {
        help: Some(format!("tenure pools {}", argument(pool))),
        pool: Some(pool.to_string()),
        count: Some(*moves as u64),
        ..of_store("pool-uneven", WARNING, says)
    };
    facts.since(*since, entry)
}

fn check(facts: &Facts, check: &FailingCheck) -> Attention {
    let FailingCheck { session, owner, kind, failures, fail_after, since, why } = check;
    let owner = owner.as_str();
    let says = format!(
        "the {kind} check of the session of {owner:?} failed {failures} times in a row ({why}); {fail_after} failures \
         end the session"
    );
    let entry = Attention {
        help: Some(format!("tenure sessions --owner={}", quoted(owner))),
        session: Some(session.to_string()),
        owner: Some(owner.to_owned()),
        reason: Some(why.to_string()),
        count: Some((*failures).into()),
        ..of_node("check-failing", WARNING, says)
    };
    facts.since(*since, entry)
}

fn more_checks(facts: &Facts) -> Option<Attention> {
    let more = facts.checks.1;
    let checks = count(more, "more check", "more checks");
    let says = format!("{checks} of sessions at this node fail");
    let entry = of_node("check-failing", WARNING, says);
    (more > 0).then_some(Attention { count: Some(more as u64), ..entry })
}
