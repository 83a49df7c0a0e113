//! How many new keys each principal may take per hour. A key stays in the store until an administrator forgets it.
//!
//! Guarantees: at one node, and within one life of it, a principal is granted no more new keys within any 60 minutes than
//! its limit says. A key is new if the store has no record of it; one that was forgotten is new again.
//!
//! Does not guarantee: a limit over several nodes, or over a restart.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;

use super::error::AcquireError;
use crate::{
    access::{Access, Broken},
    clock::{DashMap, HashMap, dash_map},
    lease::{Moment, PrincipalDigest},
};

/// New keys count until the minute in which they came is this many minutes ago.
const MINUTES: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// The new keys that principals with a limit have taken.
pub struct NewKeys {
    most: ArcSwap<HashMap<PrincipalDigest, u32>>,
    hours: DashMap<PrincipalDigest, Hour>,
}

/// The new keys of the last hour, by minutes.
struct Hour {
    /// The present minute, on the clock.
    minute: u64,
    /// The slot of a minute is its number modulo the slots. The present minute counts beside a whole hour.
    slots: [u32; MINUTES + 1],
}

/// A new key that counts. If its call is not granted it, it counts no longer.
pub struct NewKey<'a> {
    keys: &'a NewKeys,
    principal: PrincipalDigest,
    minute: u64,
}

impl Hour {
    fn new(minute: u64) -> Self {
        Self { minute, slots: [0; MINUTES + 1] }
    }

    fn slot(minute: u64) -> usize {
        (minute % (MINUTES as u64 + 1)) as usize
    }

    /// Goes on to this minute.
    fn advance(&mut self, minute: u64) {
        let passed = minute.saturating_sub(self.minute).min(MINUTES as u64 + 1);
        for ago in 0..passed {
            self.slots[Self::slot(minute - ago)] = 0;
        }
        self.minute = self.minute.max(minute);
    }

    /// How many minutes there are until one of those that count counts no longer.
    fn until_one_is_over(&self) -> u64 {
        let oldest = (0..=MINUTES as u64)
            .rev()
            .find(|ago| self.minute >= *ago && self.slots[Self::slot(self.minute - ago)] > 0);
        MINUTES as u64 + 1 - oldest.unwrap_or(0)
    }
}

impl Default for NewKeys {
    fn default() -> Self {
        Self { most: ArcSwap::default(), hours: dash_map() }
    }
}

impl NewKeys {
    /// Puts the limits of these principals into force.
    pub fn limit(&self, access: &Access) {
        let limited = access
            .principals()
            .iter()
            .filter_map(|principal| Some((principal.id().digest(), principal.limit().new_keys?)));
        let most: HashMap<PrincipalDigest, u32> = limited.collect();
        self.hours.retain(|principal, _| most.contains_key(principal));
        self.most.store(Arc::new(most));
    }

    /// The limit of a principal.
    pub fn most(&self, principal: PrincipalDigest) -> Option<u32> {
        self.most.load().get(&principal).copied()
    }

    /// Counts one more.
    ///
    /// # Errors
    /// How long to wait until there is room.
    pub fn take(
        &self,
        principal: PrincipalDigest,
        most: u32,
        now: Moment,
    ) -> Result<NewKey<'_>, Duration> {
        let passed = now.since(Moment::ZERO);
        let minute = passed.as_secs() / MINUTE.as_secs();
        let mut hour = self.hours.entry(principal).or_insert_with(|| Hour::new(minute));
        hour.advance(minute);
        let used: u64 = hour.slots.iter().map(|count| u64::from(*count)).sum();
        if used >= u64::from(most) && !Broken::NewKeysWithoutBound.is_active() {
            let over =
                MINUTE * u32::try_from(minute + hour.until_one_is_over()).unwrap_or(u32::MAX);
            return Err(over.saturating_sub(passed));
        }
        hour.slots[Hour::slot(minute)] += 1;
        Ok(NewKey { keys: self, principal, minute })
    }
}

impl NewKey<'_> {
    /// The key was granted, or perhaps was.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for NewKey<'_> {
    fn drop(&mut self) {
        if let Some(mut hour) = self.keys.hours.get_mut(&self.principal)
            && hour.minute < self.minute + MINUTES as u64 + 1
        {
            let slot = &mut hour.slots[Hour::slot(self.minute)];
            *slot = slot.saturating_sub(1);
        }
    }
}

/// A call for a key that was new has ended.
pub(super) fn end<T>(new: Option<NewKey<'_>>, granted: &Result<T, AcquireError>) {
    let is_kept = match granted {
        Ok(_) => true,
        Err(AcquireError::Call(error)) => error.is_outcome_unknown(),
        Err(_) => false,
    };
    if let Some(new) = new.filter(|_| is_kept) {
        new.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hour_has_more_than_the_limit() {
        let keys = NewKeys::default();
        let principal = crate::lease::Principal::new("p").digest();
        let at = |seconds: u64| Moment::ZERO + Duration::from_secs(seconds);
        let take = |seconds: u64| keys.take(principal, 3, at(seconds));
        let kept = |seconds: u64| take(seconds).map(NewKey::keep).is_ok();
        assert!(kept(10) && kept(30) && kept(90));
        assert_eq!(take(100).err(), Some(Duration::from_secs(61 * 60 - 100)));
        assert!(!kept(3659), "the first minute counts for a whole hour more");
        assert!(kept(3660) && kept(3660) && !kept(3661));
        // A key that was not granted does not count.
        drop(take(3720).expect("one more"));
        drop(take(3720).expect("it was given back"));
        assert!(kept(3720) && !kept(3720));
        assert!((0..3).all(|_| kept(1_000_000)), "after a long time all of them");
        assert_eq!(take(1_000_000).err().map(|after| after.as_secs() / 60), Some(60));
    }

    #[test]
    fn a_key_that_is_given_back_late_takes_nothing_from_a_later_minute() {
        let keys = NewKeys::default();
        let principal = crate::lease::Principal::new("p").digest();
        let at = |minutes: u64| Moment::ZERO + MINUTE * u32::try_from(minutes).expect("minutes");
        let early = keys.take(principal, 1, at(3)).expect("one");
        keys.take(principal, 1, at(3 + 61)).expect("one").keep();
        drop(early);
        assert!(keys.take(principal, 1, at(3 + 62)).is_err());
    }
}
