//! Pools and their members.

use super::session::labels_shown;
use crate::{
    api::{
        CordonedOwner, OrderedBy, PausedKey, PlannedMove, Pool, PoolGuard, PoolMember, PoolPlan,
        UnplacedKey, UnplacedKeys, WarmingKey, limits::MAX_PAGE,
    },
    clock::rfc3339,
    http::app::App,
    lease::{Key, Said, Unplaced, reports::in_units},
    manager::{self, DryRun, MemberView, Order, PoolShown, Share},
};

impl From<&Said> for OrderedBy {
    fn from(said: &Said) -> Self {
        Self {
            by: said.by.to_string(),
            reason: said.reason.to_string(),
            at: rfc3339(said.at_ms),
            until: said.until_ms.map(rfc3339),
        }
    }
}

impl From<&manager::UnplacedKeys> for UnplacedKeys {
    fn from(unplaced: &manager::UnplacedKeys) -> Self {
        let whys = unplaced.counts.iter();
        let key = |(key, why): &(Key, Unplaced)| UnplacedKey {
            key: key.as_str().to_owned(),
            why: why.as_str().to_owned(),
        };
        Self {
            total: unplaced.total() as u64,
            whys: whys.map(|(why, count)| (why.as_str().to_owned(), *count as u64)).collect(),
            keys: unplaced.listed.iter().map(key).collect(),
        }
    }
}

impl PoolMember {
    fn of(app: &App, member: &MemberView) -> Self {
        let MemberView { digest, joined, share, handovers, aside, replaced, cordoned, load } =
            member;
        let load_limit = joined.announced.load_limit;
        Self {
            session: digest.to_string(),
            owner: joined.owner.as_str().to_owned(),
            weight: joined.weight.into(),
            capacity: joined.capacity.map(u64::from),
            held: share.held as u64,
            share: share.share as u64,
            draining: joined.draining,
            handovers: *handovers as u64,
            set_aside: *aside,
            replaced: *replaced,
            cordoned: *cordoned,
            unready: joined.announced.unready,
            version: joined.announced.version.as_deref().map(str::to_owned),
            address: joined.announced.address.as_deref().map(str::to_owned),
            labels: labels_shown(&joined.announced.labels),
            load: load.map(in_units),
            load_limit: load_limit.map(|limit| in_units(limit.into())),
            node: app.url_of(Some(joined.node)),
        }
    }
}

impl Pool {
    pub(in crate::http) fn of(app: &App, shown: PoolShown) -> Self {
        let PoolShown { pool, balance, by_load, controls, view } = shown;
        let cordoned = controls
            .cordoned
            .iter()
            .map(|(owner, said)| CordonedOwner { owner: owner.to_string(), ordered: said.into() });
        let paused = controls.paused.iter().map(|(key, said)| {
            let to = said.to.as_deref().map(str::to_owned);
            PausedKey { key: key.to_string(), to, ordered: said.into() }
        });
        let warming = view.iter().flat_map(|view| &view.warming).map(|warm| {
            let [from, to] = warm.owners.clone().map(|owner| owner.map(Into::into));
            WarmingKey {
                key: warm.key.as_str().to_owned(),
                from,
                to,
                session: warm.warming.to.to_string(),
                since: rfc3339(warm.warming.at_ms),
                prepared: warm.warming.ready,
                requested: warm.asked,
            }
        });
        let guard = view.as_ref().map_or(controls.guard.as_ref(), |view| view.guard.as_ref());
        let members = view.iter().flat_map(|view| &view.members);
        Self {
            pool: pool.to_string(),
            balance,
            by_load,
            keys: view.as_ref().map(|view| view.keys as u64),
            free: view.as_ref().map(|view| view.free as u64),
            kept: view.as_ref().map(|view| view.kept as u64),
            unplaced: view.as_ref().map(|view| (&view.unplaced).into()),
            frozen: controls.frozen.as_ref().map(OrderedBy::from),
            cordoned: cordoned.collect(),
            paused: paused.collect(),
            warming: warming.collect(),
            guard: guard.map(|guard| PoolGuard {
                at: rfc3339(guard.at_ms),
                members: guard.members as u64,
                least: guard.least as u64,
            }),
            rebalancing: view.as_ref().is_some_and(|view| view.rebalancing),
            load_peak: view.as_ref().and_then(|view| view.peak),
            members: members.map(|member| PoolMember::of(app, member)).collect(),
        }
    }
}

impl PoolPlan {
    pub(in crate::http) fn of(app: &App, shown: PoolShown, run: Option<&DryRun>) -> Self {
        let Some(DryRun { view, moves, orders, put_off, .. }) = run else {
            return Self { pool: Pool::of(app, shown), ..Self::default() };
        };
        let planned = orders.iter().take(MAX_PAGE).filter_map(|order| {
            let Order { member: digest, key, shift, .. } = order;
            let member = view.members.iter().find(|member| member.digest == *digest)?;
            let Share { share, held } = member.share;
            let owner = member.joined.owner.as_str();
            let (reason, detail) = if member.joined.draining {
                ("drain", format!("{owner} is leaving, and holds {held} leases"))
            } else if let Some(shift) = shift {
                (shift.reason(), shift.to_string())
            } else {
                ("surplus", format!("{owner} holds {held} leases, and its share is {share}"))
            };
            Some(PlannedMove {
                key: key.as_str().to_owned(),
                session: digest.to_string(),
                owner: owner.to_owned(),
                reason: reason.to_owned(),
                detail,
            })
        });
        Self {
            moves: planned.collect(),
            more_moves: orders.len().saturating_sub(MAX_PAGE) as u64,
            imbalance: Some(*moves as u64),
            put_off: *put_off as u64,
            pool: Pool::of(app, shown),
        }
    }
}
