//! Which keys, owners and pools changed most lately: a sketch of each for every slice of time.
//!
//! Guarantees: slices of ten seconds are kept for a minute, and slices of a minute for an hour. Each has room for
//! [`ROOM`] items of each kind, so all of them have at most 67 × 3 × [`ROOM`] items, and share the texts of their names.

use std::{
    collections::VecDeque,
    hash::{Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use super::{
    cause::Cause,
    sketch::{Sketch, Summary},
};
use crate::lease::{Key, Moment, Owner, Policy};

/// How many items of each kind a slice has at most.
pub const ROOM: usize = 128;
/// The length of a short slice, and how many whole ones are kept.
const SLICE: Duration = Duration::from_secs(10);
const SLICES: u64 = 6;
/// How many slices of a minute are kept.
const MINUTES: u64 = 60;

/// The keys of a policy, or those of them that one owner had. Whoever may read all keys with the policy's prefix may know
/// of it, whatever other policies are in effect by then.
#[derive(Clone, Debug)]
pub struct Part {
    /// The policy when the change was counted.
    pub policy: Arc<Policy>,
    /// The owner; `None` for all keys of the policy.
    pub owner: Option<Owner>,
}

impl Part {
    fn names(&self) -> (&str, &str, Option<&str>) {
        (&self.policy.prefix, &self.policy.pool, self.owner.as_ref().map(Owner::as_str))
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names().hash(state);
    }
}

/// What changed most in a slice of time: by key, by owner within each policy, and by policy.
#[derive(Debug)]
struct Tops {
    keys: Summary<Key>,
    owners: Summary<Part>,
    pools: Summary<Part>,
}

impl Tops {
    /// Both, without the items that have no room.
    fn and(&self, other: &Self) -> Self {
        let mut keys = Summary::together([&self.keys, &other.keys]);
        let mut owners = Summary::together([&self.owners, &other.owners]);
        let mut pools = Summary::together([&self.pools, &other.pools]);
        keys.keep(ROOM);
        owners.keep(ROOM);
        pools.keep(ROOM);
        Self { keys, owners, pools }
    }
}

/// The slice that is being counted.
#[derive(Debug)]
struct Open {
    number: u64,
    keys: Sketch<Key>,
    owners: Sketch<Part>,
    pools: Sketch<Part>,
}

impl Open {
    fn new(number: u64) -> Self {
        let (keys, owners, pools) = (Sketch::new(ROOM), Sketch::new(ROOM), Sketch::new(ROOM));
        Self { number, keys, owners, pools }
    }

    fn close(self) -> Tops {
        let (keys, owners) = (self.keys.into_summary(), self.owners.into_summary());
        Tops { keys, owners, pools: self.pools.into_summary() }
    }

    fn so_far(&self) -> Tops {
        let (keys, owners) = (self.keys.summary(), self.owners.summary());
        Tops { keys, owners, pools: self.pools.summary() }
    }
}

/// Counts the changes of keys, by key, owner and pool.
#[derive(Debug)]
pub struct Churn {
    began: Moment,
    open: Open,
    /// The slices of ten seconds that are over, and their numbers. Those without a change are left out.
    slices: VecDeque<(u64, Arc<Tops>)>,
    /// The minutes before those, and their numbers.
    minutes: VecDeque<(u64, Arc<Tops>)>,
}

/// The slices of a window, to be put together without a lock.
#[derive(Debug)]
pub struct Window {
    parts: Vec<Arc<Tops>>,
    /// The time that they cover.
    pub covers: Duration,
}

impl Window {
    /// By key.
    #[must_use]
    pub fn keys(&self) -> Summary<Key> {
        Summary::together(self.parts.iter().map(|part| &part.keys))
    }

    /// By owner, within each policy.
    #[must_use]
    pub fn owners(&self) -> Summary<Part> {
        Summary::together(self.parts.iter().map(|part| &part.owners))
    }

    /// By policy.
    #[must_use]
    pub fn pools(&self) -> Summary<Part> {
        Summary::together(self.parts.iter().map(|part| &part.pools))
    }
}

impl Churn {
    /// Counts from now on.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        let open = Open::new(slice(now));
        Self { began: now, open, slices: VecDeque::new(), minutes: VecDeque::new() }
    }

    /// Counts a change of a key that this policy applies to, and of the owner that had the key before it or has it
    /// now.
    pub fn add(
        &mut self,
        now: Moment,
        key: &Key,
        policy: &Arc<Policy>,
        owner: Option<&Owner>,
        cause: Cause,
    ) {
        self.turn(now);
        self.open.keys.add(key, cause);
        let all = Part { policy: policy.clone(), owner: None };
        self.open.pools.add(&all, cause);
        if owner.is_some() {
            self.open.owners.add(&Part { owner: owner.cloned(), ..all }, cause);
        }
    }

    /// What was counted in the last `span`, or a little longer: slices are not divided.
    pub fn window(&mut self, now: Moment, span: Duration) -> Window {
        self.turn(now);
        let present = self.open.number;
        let mut parts = vec![Arc::new(self.open.so_far())];
        parts.extend(self.slices.iter().map(|(_, tops)| tops.clone()));
        let mut first = present.saturating_sub(SLICES);
        let minutes = span.as_secs().div_ceil(60);
        if minutes > 1 {
            let from = (present / SLICES).saturating_sub(minutes.min(MINUTES));
            let whole = self.minutes.iter().filter(|(number, _)| *number >= from);
            parts.extend(whole.map(|(_, tops)| tops.clone()));
            first = from * SLICES;
        }
        let start = Moment(first.saturating_mul(nanos(SLICE)));
        Window { parts, covers: now.since(start.max(self.began)) }
    }

    /// Closes the slices that are over, and drops those that are too old.
    fn turn(&mut self, now: Moment) {
        let present = slice(now);
        if present <= self.open.number {
            return;
        }
        let over = std::mem::replace(&mut self.open, Open::new(present));
        if !over.keys.is_empty() {
            self.slices.push_back((over.number, Arc::new(over.close())));
        }
        while self.slices.front().is_some_and(|(number, _)| number + SLICES < present)
            && let Some((number, tops)) = self.slices.pop_front()
        {
            self.add_to_minute(number / SLICES, tops);
        }
        while self.minutes.front().is_some_and(|(number, _)| number + MINUTES < present / SLICES) {
            self.minutes.pop_front();
        }
    }

    fn add_to_minute(&mut self, minute: u64, tops: Arc<Tops>) {
        match self.minutes.back_mut() {
            Some((last, so_far)) if *last == minute => *so_far = Arc::new(so_far.and(&tops)),
            _ => self.minutes.push_back((minute, tops)),
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of the slice of a moment.
fn slice(now: Moment) -> u64 {
    now.0 / nanos(SLICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::ChangeKind;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn policy(prefix: &str, pool: &str) -> Arc<Policy> {
        Arc::new(Policy { prefix: prefix.into(), pool: pool.into(), ..Policy::default() })
    }

    fn change(churn: &mut Churn, second: u64, name: &str, owner: Option<&str>) {
        let (key, owner) = (Key::new(name), owner.map(|name| Owner::new(name).expect("a name")));
        let policy = policy("", "default");
        let cause = Cause::of_kind(ChangeKind::Granted);
        churn.add(at(second), &key.expect("a key"), &policy, owner.as_ref(), cause);
    }

    fn times(churn: &mut Churn, now: u64, span: u64, name: &str) -> u64 {
        let keys = churn.window(at(now), Duration::from_secs(span)).keys();
        let found = keys.rows().find(|(key, _)| key.as_str() == name);
        found.map_or(0, |(_, row)| row.at_least())
    }

    #[test]
    fn a_change_is_in_a_window_for_as_long_as_the_window_and_a_slice_at_most() {
        let mut churn = Churn::new(at(0));
        change(&mut churn, 5, "k", None);
        for (now, in_minute, in_ten, in_hour) in [
            (5, 1, 1, 1),
            (65, 1, 1, 1),
            (70, 0, 1, 1),
            (600, 0, 1, 1),
            (661, 0, 0, 1),
            (3_600, 0, 0, 1),
            (3_661, 0, 0, 0),
        ] {
            let found = [60, 600, 3_600].map(|span| times(&mut churn, now, span, "k"));
            assert_eq!(found, [in_minute, in_ten, in_hour], "after {now} s");
        }
    }

    #[test]
    fn the_slices_of_a_minute_are_put_together() {
        let mut churn = Churn::new(at(0));
        for second in 0..300 {
            change(&mut churn, second, "often", None);
            change(&mut churn, second, &format!("once/{second}"), None);
        }
        assert_eq!(times(&mut churn, 299, 600, "often"), 300);
        assert_eq!(times(&mut churn, 299, 60, "often"), 70, "six slices, and the present one");
        assert_eq!(churn.slices.len(), 6);
        assert!(churn.minutes.iter().all(|(_, tops)| tops.keys.rows().count() <= ROOM));
    }

    #[test]
    fn the_time_that_a_window_covers_begins_with_the_node() {
        let mut churn = Churn::new(at(1_003));
        let covers = |churn: &mut Churn, now| {
            [60, 600, 3_600]
                .map(|span| churn.window(at(now), Duration::from_secs(span)).covers.as_secs())
        };
        assert_eq!(covers(&mut churn, 1_010), [7, 7, 7]);
        assert_eq!(covers(&mut churn, 1_105), [65, 102, 102]);
        assert_eq!(covers(&mut churn, 9_005), [65, 605, 3_605]);
    }

    #[test]
    fn owners_and_pools_are_counted_within_the_policy_that_applied() {
        let mut churn = Churn::new(at(0));
        let (jobs, secret) = (policy("jobs/", "p"), policy("secret/", "p"));
        let owner = Owner::new("w").expect("a name");
        let cause = Cause::of_kind(ChangeKind::Expired);
        for (policy, key) in [(&jobs, "jobs/1"), (&jobs, "jobs/2"), (&secret, "secret/1")] {
            churn.add(at(1), &Key::new(key).expect("a key"), policy, Some(&owner), cause);
        }
        let window = churn.window(at(2), Duration::from_secs(60));
        let owners = window.owners();
        for parts in [&owners, &window.pools()] {
            let count = |prefix: &str| {
                let of = parts.rows().filter(|(part, _)| *part.policy.prefix == *prefix);
                of.map(|(_, row)| row.at_least()).sum::<u64>()
            };
            assert_eq!([count("jobs/"), count("secret/")], [2, 1]);
        }
        assert!(owners.rows().all(|(part, _)| part.owner.as_ref() == Some(&owner)));
    }

    #[test]
    fn nothing_that_changes_makes_it_grow_beyond_its_bounds() {
        let mut churn = Churn::new(at(0));
        for second in (0..8_000).step_by(10) {
            for number in 0..200 {
                change(&mut churn, second, &format!("{second}/{number}"), Some("w"));
            }
        }
        assert!(churn.slices.len() <= 6 && churn.minutes.len() <= 61, "{churn:?}");
        let mut slices = churn.slices.iter().chain(&churn.minutes);
        assert!(slices.all(|(_, tops)| tops.keys.rows().count() <= ROOM));
    }
}
