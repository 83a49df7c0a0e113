//! What happened lately at this node, for whoever looks at it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};

use super::{
    Manager,
    count::{CountedKeys, counted},
    inspect::VIEWS_AT_ONCE,
};
use crate::{
    actor::FailingCheck,
    clock::HashMap,
    lease::{ChangeKind, Key, Moment, Unplaced, View},
    store::Health,
    telemetry::recent::{Cause, FenceFailure, Interruptions, Point, Step, Window},
};

/// How many keys are looked at to find out whether their failed fences are settled.
const LOOKED_AT: usize = 1000;
/// The feed may tell of a failure before the lease shows it. After this time, the failure of a lease that shows none is
/// settled.
const SHOWN_WITHIN_MS: u64 = 10_000;
/// Callers that wait for a key that nobody holds wait in vain after this time: a write takes less.
const IN_VAIN: Duration = Duration::from_secs(5);

/// A key of a pool churns from this many grants within [`CHURN`]: one in ten seconds.
pub(crate) const OFTEN: u32 = 60;
const CHURN: Duration = Duration::from_secs(600);

/// A key with a fence that failed for good.
#[derive(Clone, Debug)]
pub(crate) struct FailedFence {
    pub key: Key,
    pub pool: Arc<str>,
    /// The lease; `None` if it could not be read now.
    pub view: Option<View>,
    /// When it failed, in milliseconds since 1970; if this node did not hear of it, when the tenure before ended.
    pub at_ms: Option<u64>,
    /// The plugin and what it said, if this node heard of it.
    pub reason: Option<Box<str>>,
}

/// A key that was counted or heard of with a fence that failed for good.
pub(super) struct FailedAt {
    pub(super) key: Key,
    /// When the latest tenure ended, in milliseconds since 1970, if that was counted.
    ended_at_ms: Option<u64>,
    /// What this node heard of the failure.
    failure: Option<FenceFailure>,
}

/// The keys with fences that failed for good.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedFences {
    /// Those that the caller may read, in the order of their keys.
    pub listed: Vec<FailedFence>,
    /// How many more it may read.
    pub more: usize,
    /// How many it may not read.
    pub hidden: usize,
}

/// A key that nobody holds although callers have waited for it for a while.
#[derive(Clone, Debug)]
pub(crate) struct StuckKey {
    pub key: Key,
    pub pool: Arc<str>,
    pub since: Moment,
}

/// The keys that nobody holds although callers have waited for them for a while.
#[derive(Clone, Debug, Default)]
pub(crate) struct StuckKeys {
    /// Those that the caller may read, the longest first.
    pub listed: Vec<StuckKey>,
    /// How many others there are.
    pub others: usize,
}

/// A pool that lost many members at once.
#[derive(Clone, Debug)]
pub(crate) struct GuardedPool {
    pub(crate) pool: Arc<str>,
    /// How many members it had before.
    pub(crate) members: usize,
    /// How many it has now.
    pub(crate) left: usize,
    /// For how long the guard has stood, by the wall clock.
    pub(crate) for_ms: u64,
}

/// A pool whose leases must move.
#[derive(Clone, Debug)]
pub(crate) struct UnevenPool {
    pub pool: Arc<str>,
    pub since: Moment,
    /// How many leases must move.
    pub moves: usize,
    pub members: usize,
}

/// A pool with keys that its members do not keep.
#[derive(Clone, Debug)]
pub(crate) struct ChurningPool {
    pub pool: Arc<str>,
    /// How many keys were granted [`OFTEN`] times or more in the last ten minutes.
    pub keys: usize,
    /// How often these were granted together.
    pub grants: u64,
}

/// A pool with keys that no member can take.
#[derive(Clone, Debug)]
pub(crate) struct UnplacedPool {
    pub pool: Arc<str>,
    pub since: Moment,
    /// How many keys require labels that no member has.
    pub unmet: usize,
    /// For how many keys those that may have them have no room.
    pub no_room: usize,
}

impl Manager {
    /// How many keys are in each state, and which have fences that failed, as of a moment ago. `None` while the store
    /// cannot be read, or was not read in time.
    pub(crate) async fn counted(&self) -> Option<Arc<CountedKeys>> {
        counted(&self.counter, &self.coordinator).await
    }

    /// What interrupted this node in the last ten minutes.
    pub(crate) fn interruptions(&self) -> Vec<Interruptions> {
        self.coordinator.recent.interruptions(self.now())
    }

    /// Whether this node may promise.
    pub(crate) fn may_promise(&self) -> bool {
        self.coordinator.node_context().may_promise(self.now())
    }

    /// The keys with fences that failed for good: those in the last count, and those that were heard of since. Of those that
    /// `reads` lets pass, `most` are listed at most.
    pub(crate) async fn failed_fences(
        &self,
        counted: Option<&CountedKeys>,
        reads: impl Fn(&str) -> bool,
        most: usize,
    ) -> FailedFences {
        let mut candidates = self.keys_with_failed_fences(counted);
        candidates.truncate(LOOKED_AT);
        let look = candidates.iter().map(|failed| self.view(&failed.key));
        let views: Vec<_> = stream::iter(look).buffered(VIEWS_AT_ONCE).collect().await;
        let now_ms = self.wall_ms();
        let mut found = FailedFences {
            more: counted.map_or(0, |keys| keys.census.more_failed),
            ..FailedFences::default()
        };
        for (FailedAt { key, ended_at_ms, failure }, view) in candidates.into_iter().zip(views) {
            let view = view.ok();
            if view.as_ref().is_some_and(|view| !view.fence_failed) {
                if let Some(failure) = failure
                    && now_ms.saturating_sub(failure.at_ms) > SHOWN_WITHIN_MS
                {
                    self.coordinator.recent.fence_settled(&key, &failure);
                }
                continue;
            }
            if !reads(key.as_str()) {
                found.hidden += 1;
            } else if found.listed.len() >= most {
                found.more += 1;
            } else {
                let at_ms = failure.as_ref().map(|failure| failure.at_ms).or(ended_at_ms);
                let reason = failure.and_then(|failure| failure.reason);
                let pool = self.pool_of(key.as_str());
                found.listed.push(FailedFence { key, pool, view, at_ms, reason });
            }
        }
        found
    }

    /// The keys that were counted or heard of with fences that failed for good, in their order. Some may be settled by now.
    pub(super) fn keys_with_failed_fences(&self, counted: Option<&CountedKeys>) -> Vec<FailedAt> {
        let mut heard: HashMap<_, _> =
            self.coordinator.recent.fence_failures().into_iter().collect();
        let mut found = Vec::new();
        for (key, ended_at_ms) in counted.into_iter().flat_map(|keys| &keys.census.failed) {
            let failure = heard.remove(key);
            found.push(FailedAt { key: key.clone(), ended_at_ms: *ended_at_ms, failure });
        }
        let heard = heard.into_iter();
        found.extend(heard.map(|(key, failure)| FailedAt {
            key,
            ended_at_ms: None,
            failure: Some(failure),
        }));
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        found
    }

    /// Keys that nobody holds although callers have waited for them for a while. Of those that `reads` lets pass, `most`
    /// are listed at most.
    pub(crate) fn stuck(&self, reads: impl Fn(&str) -> bool, most: usize) -> StuckKeys {
        let before = self.now() - IN_VAIN;
        let (found, all) = self.coordinator.stuck.since(before, LOOKED_AT);
        let is_read = |(key, _): &(Key, Moment)| !key.is_internal() && reads(key.as_str());
        let stuck = |(key, since): (Key, Moment)| {
            let pool = self.pool_of(key.as_str());
            StuckKey { key, pool, since }
        };
        let listed: Vec<_> = found.into_iter().filter(is_read).take(most).map(stuck).collect();
        StuckKeys { others: all - listed.len(), listed }
    }

    /// The checks of this node's sessions whose latest rounds failed. Of those that `sees` lets pass, `most` are listed
    /// at most. The number: how many others there are.
    pub(crate) fn failing_checks(
        &self,
        sees: impl Fn(&FailingCheck) -> bool,
        most: usize,
    ) -> (Vec<FailingCheck>, usize) {
        let (mut listed, all) = self.coordinator.sessions.failing.list(LOOKED_AT);
        listed.retain(sees);
        listed.truncate(most);
        let others = all - listed.len();
        (listed, others)
    }

    /// The pools with `balance` whose leases must move.
    pub(crate) fn uneven_pools(&self) -> Vec<UnevenPool> {
        let table = self.coordinator.policy_table();
        let uneven = |pool: Arc<str>| {
            let noted = self.coordinator.pools.noted(&pool).filter(|_| table.balances(&pool))?;
            let (since, moves) = noted.uneven?;
            Some(UnevenPool { pool, since, moves, members: noted.members })
        };
        table.pools().into_iter().filter_map(uneven).collect()
    }

    /// The pools with members that have keys which were granted again and again in the last ten minutes.
    pub(crate) fn churning_pools(&self) -> Vec<ChurningPool> {
        let granted = Cause::of_kind(ChangeKind::Granted).index();
        let window = self.coordinator.recent.window(self.now(), CHURN);
        let table = self.coordinator.policy_table();
        let mut found: BTreeMap<Arc<str>, (usize, u64)> = BTreeMap::new();
        for (key, row) in window.keys().rows().filter(|(_, row)| row.counts[granted] >= OFTEN) {
            let pool = found.entry(table.of(key.as_str()).0.pool.clone()).or_default();
            *pool = (pool.0 + 1, pool.1 + u64::from(row.counts[granted]));
        }
        let has_members =
            |pool: &str| self.coordinator.pools.noted(pool).is_some_and(|noted| noted.members > 0);
        found.retain(|pool, _| has_members(pool));
        let churning = |(pool, (keys, grants))| ChurningPool { pool, keys, grants };
        found.into_iter().map(churning).collect()
    }

    /// The frozen pools that have keys without an owner, with how many, and the time since the order in milliseconds.
    pub(crate) fn frozen_pools(&self) -> Vec<(Arc<str>, usize, u64)> {
        let frozen = |pool: Arc<str>| {
            let since_ms = self.coordinator.pools.controls(&pool).frozen.as_ref()?.at_ms;
            let free = self.coordinator.pools.noted(&pool)?.free;
            let for_ms = self.wall_ms().saturating_sub(since_ms);
            (free > 0).then_some((pool, free, for_ms))
        };
        self.coordinator.policy_table().pools().into_iter().filter_map(frozen).collect()
    }

    /// The pools with keys that no member can take, whatever the orders of operators.
    pub(crate) fn unplaced_pools(&self) -> Vec<UnplacedPool> {
        let unplaced = |pool: Arc<str>| {
            let noted = self.coordinator.pools.noted(&pool)?;
            let count = |why: Unplaced| noted.unplaced.counts.get(&why).copied().unwrap_or(0);
            let no_room = count(Unplaced::Capacity) + count(Unplaced::LoadLimit);
            let (unmet, since) = (count(Unplaced::Require), noted.unplaced_since?);
            (unmet + no_room > 0).then_some(UnplacedPool { pool, since, unmet, no_room })
        };
        self.coordinator.policy_table().pools().into_iter().filter_map(unplaced).collect()
    }

    /// The pools whose guards against mass failures stand, with the time since then in milliseconds.
    pub(crate) fn guarded_pools(&self) -> Vec<GuardedPool> {
        let guarded = |pool: Arc<str>| {
            let noted = self.coordinator.pools.noted(&pool)?;
            let (guard, left) = (noted.guard?, noted.members);
            let for_ms = self.wall_ms().saturating_sub(guard.at_ms);
            Some(GuardedPool { pool, members: guard.members, left, for_ms })
        };
        self.coordinator.policy_table().pools().into_iter().filter_map(guarded).collect()
    }

    /// Whether the store accepts writes.
    pub(crate) fn store_health(&self) -> Health {
        self.coordinator.store.health()
    }

    /// The wall clock, in milliseconds since 1970.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.coordinator.clock.wall_ms()
    }

    /// What happened in each of the last slices of time.
    pub(crate) fn points(&self, step: Step) -> Vec<Point> {
        self.coordinator.recent.points(self.now(), step)
    }

    /// What happened in the last five minutes or less.
    pub(crate) fn lately(&self, span: Duration) -> Point {
        self.coordinator.recent.lately(self.now(), span)
    }

    /// What changed most in the last hour or less.
    pub(crate) fn changed_most(&self, span: Duration) -> Window {
        self.coordinator.recent.window(self.now(), span)
    }
}
