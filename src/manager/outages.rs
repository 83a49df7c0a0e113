//! Pools for which something cannot be stored, and when that is tried again.

use std::{collections::BTreeMap, time::Duration};

use crate::lease::Moment;

/// The pause after the first failure, and the longest one. Another node may be storing its own: that is over soon.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(5)];

/// The pools for which the last attempt failed.
#[derive(Default)]
pub(super) struct Outages(BTreeMap<Box<str>, Outage>);

struct Outage {
    pause: Duration,
    until: Moment,
}

impl Outages {
    /// Whether an attempt may be made for the pool.
    pub fn allow(&self, pool: &str, now: Moment) -> bool {
        self.0.get(pool).is_none_or(|outage| outage.until <= now)
    }

    /// An attempt failed. Returns whether the one before it did not.
    pub fn failed(&mut self, pool: &str, now: Moment) -> bool {
        let [first, longest] = PAUSES;
        let before = self.0.get(pool);
        let pause = before.map_or(first, |before| (2 * before.pause).min(longest));
        self.0.insert(pool.into(), Outage { pause, until: now + pause }).is_none()
    }

    /// An attempt succeeded. Returns whether the one before it failed.
    pub fn ended(&mut self, pool: &str) -> bool {
        self.0.remove(pool).is_some()
    }

    /// Forgets the other pools: there is nothing to store for them any more.
    pub fn retain(&mut self, pools: impl Fn(&str) -> bool) {
        self.0.retain(|pool, _| pools(pool));
    }

    /// The time until the next attempt, if one failed.
    pub fn next(&self, now: Moment) -> Option<Duration> {
        self.0.values().map(|outage| outage.until.since(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_a_bound_and_each_outage_begins_and_ends_once() {
        let (mut outages, mut now) = (Outages::default(), Moment(7));
        assert!(outages.allow("a", now) && outages.next(now).is_none());
        for pause in [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000] {
            assert_eq!(outages.failed("a", now), pause == 10);
            assert_eq!(outages.next(now), Some(pause * MS));
            assert!(!outages.allow("a", now + (pause - 1) * MS) && outages.allow("b", now));
            now = now + pause * MS;
            assert!(outages.allow("a", now));
        }
        assert!(outages.failed("b", now), "each pool has pauses of its own");
        assert!(outages.ended("a") && !outages.ended("a"));
        assert_eq!(outages.next(now), Some(10 * MS));
        assert!(outages.failed("a", now));
        outages.retain(|pool| pool == "b");
        assert!(outages.allow("a", now) && !outages.allow("b", now));
    }
}
