//! How the leases of a pool are spread over its members, and which of them move when that changes.
//!
//! Guarantees: who sees the same pool computes the same; the targets of a pool add up to its keys (or to what its members
//! have room for), each within one of what the weights say; no lease is asked for that nobody is short of.
//!
//! Does not guarantee: exact targets while no member is short by more than its dead band, see [`band`].
//!
//! Assumes: a member that is short of leases waits for them, and takes those that come free. One that does not is
//! [set aside](Standing); and a member that has none yet is given one to begin with, and the others once it took that.

use std::{cmp::Reverse, time::Duration};

use super::{Moment, Nonce};

/// A member of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its session.
    pub id: Nonce,
    /// Its share of the work beside other members.
    pub weight: u32,
    /// Most leases that it is to have; `usize::MAX` where it does not say.
    pub capacity: usize,
    /// How many leases of the pool it has.
    pub held: usize,
    /// How many of them it was asked for, and has yet.
    pub asked: usize,
    /// It leaves: it is to have none.
    pub draining: bool,
}

/// How long leases that nobody has may stand untaken by a member that is short of them.
pub const UNTAKEN: Duration = Duration::from_secs(10);
/// For how long a member that took none is set aside at first…
const ASIDE: Duration = Duration::from_secs(60);
/// …and at most: each time it is four times as long.
const ASIDE_MAX: Duration = Duration::from_secs(600);

/// Whether a member takes the leases that it is to have. One that leaves them untaken is set aside: it counts for
/// what it has, so that others serve the rest, until it takes one, asks for one, or its time aside is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    held: usize,
    untaken_since: Option<Moment>,
    aside_until: Option<Moment>,
    times: u32,
}

impl Standing {
    /// Looks at a member that has `held` leases; `short`: it is to have more, and some are free; `ripe`: one has been
    /// so for [`UNTAKEN`]. Whether that set it aside, or back.
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

    /// It asks for leases. Whether that sets it back.
    pub fn asks(&mut self) -> bool {
        let was_aside = self.is_aside();
        *self = Self { held: self.held, ..Self::default() };
        was_aside
    }

    /// It counts for what it has, and no more.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.aside_until.is_some()
    }

    /// It is to be looked at again, though nothing changes.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.aside_until.is_some() || self.untaken_since.is_some()
    }
}

/// What keeps leases from moving to and fro.
#[derive(Clone, Copy, Debug)]
pub struct Damping {
    /// A lease is not asked for before it was held for so long.
    pub min_hold: Duration,
    /// At most so many leases of a member are asked for at a time, or half of what it has where that is more.
    pub at_once: usize,
}

/// The keys of a pool that nobody has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unheld {
    /// All of them.
    pub keys: usize,
    /// Those that whoever is short of leases will have taken soon: none that is shut, or that was left untaken.
    pub fresh: usize,
}

/// What is to be done for a pool. Everything in the order of the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How many leases each is to have.
    pub targets: Vec<usize>,
    /// How many leases each is to be asked for now, beside those that it was asked for.
    pub asks: Vec<usize>,
    /// The fewest leases that have to move until every member has its target.
    pub moves: usize,
}

/// How far below its target a member may stay without any lease being moved: a twentieth of it.
#[must_use]
pub fn band(target: usize) -> usize {
    target / 20
}

/// How many of `keys` leases each member is to have: its quota by weight, rounded down, and one more for those
/// with the largest remainders. Between equal remainders whoever has more beyond its quota keeps it: so the
/// fewest leases move. Members that leave get none; what is beyond a member's capacity falls to the others.
#[must_use]
pub fn targets(members: &[Member], keys: usize) -> Vec<usize> {
    // Who leaves, or has all that it can, takes no part in what is left.
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

/// What is to be done for a pool of so many keys, which are those that members have and those that nobody has.
///
/// Nothing, while the unheld keys and the leases of those that leave suffice to bring every member to within
/// its [`band`]. Else every member above its target is asked for all that it has too many, at most
/// `at_once` or half of its leases at a time. Those that leave are asked for everything at once, whatever else.
///
/// For a member that has nothing yet, the others are asked for one lease. So a member that never takes any costs
/// the pool one key for each node that asks, whatever its weight. Who is first by `order` is asked: not always the
/// same member, for some leases cannot move.
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
        target.saturating_sub(member.held).saturating_sub(band(*target))
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

/// Which of a member's leases it is asked for: the youngest of those that it has had for long enough. What
/// was moved last is moved again, so that most keys never notice who comes and goes; and what a worker has had
/// for longest is the dearest to give up. `leases` are those that it was not asked for yet, with when each
/// began.
#[must_use]
pub fn choose<K: Ord>(
    mut leases: Vec<(K, Moment)>,
    count: usize,
    now: Moment,
    damping: Damping,
) -> Vec<K> {
    leases.retain(|(_, since)| now.since(*since) >= damping.min_hold);
    leases.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    leases.into_iter().take(count).map(|(key, _)| key).collect()
}
