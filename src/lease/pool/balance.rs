//! How the leases of a pool are spread over its members, and which leases move when the pool changes.
//!
//! Guarantees: two nodes that see the same pool compute the same plan. The targets of a pool add up to its keys, or to
//! what its members have room for. Each target is within one lease of the member's share by weight. No lease is asked
//! for unless a member is short of leases.
//!
//! Does not guarantee: exact targets while every member is within its dead band, see [`band`].
//!
//! Assumes: a member that is short of leases waits for them and takes leases that become free. A member that does not
//! is [set aside](Standing). A member without leases is first given one, and the others once it took that one.

use std::{cmp::Reverse, time::Duration};

use crate::lease::primitives::{Moment, Nonce};

/// A member of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The digest of the member's session.
    pub id: Nonce,
    /// The member's share of the work relative to other members.
    pub weight: u32,
    /// The most leases that the member may have; `usize::MAX` where it names no limit.
    pub capacity: usize,
    /// How many leases of the pool the member has.
    pub held: usize,
    /// How many of these leases it was asked to hand over and still has.
    pub asked: usize,
    /// The member is leaving: its target is 0.
    pub draining: bool,
}

/// How long a member that is short of leases may leave free leases untaken before it is set aside.
pub const UNTAKEN: Duration = Duration::from_secs(10);
/// How long a member that took none is set aside the first time…
const ASIDE: Duration = Duration::from_secs(60);
/// The longest such time. Each time is four times the previous one.
const ASIDE_MAX: Duration = Duration::from_secs(600);

/// Whether a member takes the leases that it should have. A member that leaves them untaken is set aside: it counts
/// only for what it has, so that others serve the rest. That ends when it takes a lease, when it asks for one, or when
/// the time is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    held: usize,
    untaken_since: Option<Moment>,
    aside_until: Option<Moment>,
    times: u32,
}

impl Standing {
    /// Judges a member that has `held` leases. `short` says that it should have more and that some are free; `ripe`
    /// says that one of these has been free for [`UNTAKEN`]. Returns whether this set the member aside or brought it
    /// back.
    pub fn look(&mut self, held: usize, short: bool, ripe: bool, now: Moment) -> bool {
        if held > self.held {
            let was_aside = self.is_aside();
            *self = Self { held, ..Self::default() };
            return was_aside;
        }
        self.held = held;
        if let Some(until) = self.aside_until {
            let over = now >= until;
            self.aside_until = self.aside_until.filter(|_| !over);
            return over;
        }
        if !short {
            self.untaken_since = None;
            return false;
        }
        let since = *self.untaken_since.get_or_insert(now);
        if !ripe || now.since(since) < UNTAKEN {
            return false;
        }
        let aside = ASIDE.saturating_mul(4_u32.saturating_pow(self.times)).min(ASIDE_MAX);
        self.times = self.times.saturating_add(1);
        (self.untaken_since, self.aside_until) = (None, Some(now + aside));
        true
    }

    /// The member asks for leases. Returns whether this brings it back.
    pub fn asks(&mut self) -> bool {
        let was_aside = self.is_aside();
        *self = Self { held: self.held, ..Self::default() };
        was_aside
    }

    /// Whether the member is set aside, so that it counts only for what it has.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.aside_until.is_some()
    }

    /// Whether the member must be judged again even if nothing changes.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.aside_until.is_some() || self.untaken_since.is_some()
    }
}

/// The limits that keep leases from moving back and forth.
#[derive(Clone, Copy, Debug)]
pub struct Damping {
    /// How long a lease must have been held before it may be asked for.
    pub min_age: Duration,
    /// At most this many leases of a member are requested at a time, or half of its leases if that is more.
    pub at_once: usize,
    /// There is no dead band: every member gets exactly its target.
    pub is_exact: bool,
}

/// The keys of a pool that are not held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unheld {
    /// The number of these keys.
    pub keys: usize,
    /// How many of them a member that is short of leases will take soon: neither shut nor left untaken.
    pub fresh: usize,
}

/// What to do for a pool. Each list is in the order of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How many leases each member should have.
    pub targets: Vec<usize>,
    /// How many more leases each member is asked for now, in addition to those it was already asked for.
    pub asks: Vec<usize>,
    /// The smallest number of leases that must move until every member has its target.
    pub moves: usize,
}

/// How far below its target a member may stay before leases are moved: a twentieth of the target.
#[must_use]
pub fn band(target: usize) -> usize {
    target / 20
}

/// How many of `keys` leases each member should have: its quota by weight, rounded down, and one more for the members
/// with the largest remainders. Between equal remainders, the member that holds more beyond its quota keeps the lease,
/// so that the fewest leases move. Members that leave get none. What exceeds a member's capacity goes to the others.
#[must_use]
pub fn targets(members: &[Member], keys: usize) -> Vec<usize> {
    // Members that leave, or have reached their capacity, take no part in what is left.
    let mut weights: Vec<u32> =
        members.iter().map(|member| if member.draining { 0 } else { member.weight }).collect();
    let mut left = keys;
    loop {
        let mut targets = split(members, &weights, left);
        let over = |at: &usize| targets[*at] > members[*at].capacity;
        let full: Vec<usize> = (0..members.len()).filter(over).collect();
        if full.is_empty() {
            let is_full = |at: &usize| weights[*at] == 0 && !members[*at].draining;
            let full: Vec<usize> = (0..members.len()).filter(is_full).collect();
            full.into_iter().for_each(|at| targets[at] = members[at].capacity);
            return targets;
        }
        for at in full {
            weights[at] = 0;
            left = left.saturating_sub(members[at].capacity);
        }
    }
}

/// Quotas by weight, rounded to whole leases.
fn split(members: &[Member], weights: &[u32], keys: usize) -> Vec<usize> {
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    if total == 0 {
        return vec![0; members.len()];
    }
    let quota = |at: usize| keys as u128 * u128::from(weights[at]);
    let floor = |at: usize| usize::try_from(quota(at) / total).unwrap_or(usize::MAX);
    let mut targets: Vec<usize> = (0..members.len()).map(floor).collect();
    let extra = keys - targets.iter().sum::<usize>();
    let mut order: Vec<usize> = (0..members.len()).filter(|&at| weights[at] > 0).collect();
    order.sort_unstable_by_key(|&at| {
        let beyond = members[at].held.saturating_sub(targets[at]);
        (Reverse(quota(at) % total), Reverse(beyond), members[at].id)
    });
    order.into_iter().take(extra).for_each(|at| targets[at] += 1);
    targets
}

/// The plan for a pool. Its keys are those that the members have and those in `unheld`.
///
/// Nothing moves while the unheld keys and the leases of leaving members suffice to bring every member to within its
/// [`band`]. Otherwise every member above its target is asked for its whole surplus, but for at most `at_once` leases
/// or half of its leases at a time. Leaving members are always asked for everything at once.
///
/// For a member that has no lease yet, the others are asked for one lease. So a member that never takes any costs the
/// pool one key per asking node, whatever its weight. `order` decides which member is asked first. It should vary,
/// because some leases cannot move.
#[must_use]
pub fn plan<O: Ord>(
    members: &[Member],
    unheld: Unheld,
    damping: Damping,
    order: impl Fn(&Member) -> O,
) -> Plan {
    let keys = unheld.keys + members.iter().map(|member| member.held).sum::<usize>();
    let targets = targets(members, keys);
    let pairs = || members.iter().zip(&targets);
    let surplus = |(member, target): (&Member, &usize)| member.held.saturating_sub(*target);
    let moves: usize = pairs().map(surplus).sum();
    let leaving: usize =
        members.iter().filter(|member| member.draining).map(|member| member.held).sum();
    let short = |(member, target): (&Member, &usize)| {
        let band = if damping.is_exact { 0 } else { band(*target) };
        target.saturating_sub(member.held).saturating_sub(band)
    };
    let balanced = pairs().map(short).sum::<usize>() <= unheld.keys + leaving;

    let newcomers = || pairs().filter(|(member, target)| member.held == 0 && **target > 0);
    let kept_back: usize = newcomers().map(|(_, target)| target - 1).sum();
    let first = newcomers().count().saturating_sub(unheld.fresh + leaving);
    let mut left =
        if balanced { 0 } else { (moves - leaving).saturating_sub(kept_back).max(first) };
    let mut asks = vec![0; members.len()];
    let mut all: Vec<usize> = (0..members.len()).collect();
    all.sort_unstable_by_key(|&at| (members[at].asked == 0, order(&members[at])));
    for at in all {
        let (member, surplus) = (&members[at], surplus((&members[at], &targets[at])));
        let most = if member.draining {
            surplus
        } else {
            surplus.min(damping.at_once.max(member.held / 2)).min(left)
        };
        if !member.draining {
            left -= most;
        }
        asks[at] = most.saturating_sub(member.asked);
    }
    Plan { targets, asks, moves }
}

/// Chooses which of a member's leases it is asked for: the youngest of those that it has held for long enough. So a
/// lease that moved recently moves again, and most keys never notice members that come and go. The lease that a worker
/// has held longest is the most expensive to give up. `leases` are those that the member was not asked for yet, with
/// the moment at which each began.
#[must_use]
pub fn choose<K: Ord>(
    mut leases: Vec<(K, Moment)>,
    count: usize,
    now: Moment,
    damping: Damping,
) -> Vec<K> {
    leases.retain(|(_, since)| now.since(*since) >= damping.min_age);
    leases.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    leases.into_iter().take(count).map(|(key, _)| key).collect()
}
