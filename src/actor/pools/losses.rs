//! The losses of members that count together: several within a short time are a mass failure.
//!
//! Guarantees: the share that the others had is that of the pool before the first of these losses.

use std::{collections::VecDeque, time::Duration};

use crate::lease::{Guard, MassFailure, Moment, Owner};

/// The members of a pool that were lost lately, and what the pool was before.
#[derive(Clone, Default)]
pub struct Losses {
    lost: VecDeque<(Moment, Owner)>,
    before: Guard,
    /// A mass failure that was noticed, until it is stored.
    pub noticed: Option<Guard>,
}

impl Losses {
    /// Notes that a member of the pool was lost. `before` is the pool with that member. `is_back` says whether an owner
    /// has another session by now. Returns whether it is a mass failure: many are missing, and no others came in their
    /// place.
    pub fn note(
        &mut self,
        owner: &Owner,
        before: Guard,
        is_back: impl Fn(&Owner) -> bool,
        rule: MassFailure,
        now: Moment,
    ) -> bool {
        let (within, left) =
            (Duration::from_millis(rule.within_ms), before.members.saturating_sub(1));
        self.lost.retain(|(at, owner)| now.since(*at) < within && !is_back(owner));
        if self.lost.is_empty() {
            let least = rule.least(before.members);
            self.before = Guard { least, ..before };
        }
        self.lost.push_back((now, owner.clone()));
        // Others may have come in place of the lost ones.
        if self.lost.len() < self.before.least || self.before.is_over(left) {
            return false;
        }
        self.noticed = Some(self.before.clone());
        true
    }

    /// What was lost so far no longer counts.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: MassFailure = MassFailure { within_ms: 10_000, percent: 30 };

    fn before(members: usize) -> Guard {
        Guard { members, weight: members as u64, keys: 50 * members, ..Guard::default() }
    }

    /// Which of these losses, each at a second, makes it a mass failure of ten members.
    fn failure(seconds: &[u64], is_back: impl Fn(&Owner) -> bool) -> Option<usize> {
        let mut losses = Losses::default();
        seconds.iter().enumerate().position(|(at, second)| {
            let owner = Owner::new(&format!("w{at}")).expect("an owner");
            let now = Moment::ZERO + Duration::from_secs(*second);
            losses.note(&owner, before(10 - at), &is_back, RULE, now)
        })
    }

    #[test]
    fn losses_count_together_within_the_time_unless_the_owner_is_back() {
        assert_eq!(failure(&[0, 1, 2, 3], |_| false), Some(2), "3 of 10");
        assert_eq!(failure(&[0, 9, 11, 21], |_| false), None);
        assert_eq!(failure(&[0, 1, 2, 3], |owner| owner.as_str() == "w0"), Some(3));
    }

    #[test]
    fn a_mass_failure_has_at_least_two_losses_and_counts_from_before_the_first() {
        let mut losses = Losses::default();
        let owner = |name| Owner::new(name).expect("an owner");
        let mut note = |name, members| {
            losses.note(&owner(name), before(members), |_| false, RULE, Moment::ZERO)
        };
        assert!(!note("a", 3) && note("b", 2));
        let noticed = losses.noticed.clone().expect("it was noticed");
        assert_eq!((noticed.members, noticed.least, noticed.share(1)), (3, 2, 50));
        losses.forget();
        assert_eq!(losses.noticed, None);
    }
}
