//! R6: what remains to be done for a session that is over: its leases are told and searched for again, and finally its
//! record is removed.
//!
//! This module only decides. The shell searches, tells the leases and removes the record.
//!
//! Guarantees: the record is removed only after two searches in a row found no lease of the session, the second at
//! least one retention period after the first.

use std::time::Duration;

use crate::lease::{message::SessionOver, primitives::Moment};

/// After this time the leases of an ended session are searched for once more: a grant may have landed late.
const SEARCH_AGAIN: Duration = Duration::from_secs(5);
/// After this time a failed search is repeated.
const RETRY: Duration = Duration::from_millis(500);

/// While leases are left, they are searched for at least this often.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// A session that is over, until nothing of it is left.
#[derive(Clone, Debug)]
pub struct Cleanup {
    pub over: SessionOver,
    /// Since when the end is known. A grant may land until `SEARCH_AGAIN` after it.
    since: Moment,
    /// When its leases are searched for next, and the pause after that search if it finds some.
    next: Moment,
    pause: Duration,
    /// A search found none. After the next search that finds none, the record is removed.
    bare: bool,
    /// The retention: how long the record stays after the last lease was seen.
    retention: Duration,
}

/// What follows from a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupEffect {
    /// Nothing to do before the next search.
    Wait,
    /// What is known of the session must be forgotten.
    Forget,
    /// The session's record must be removed. If that fails, call [`Cleanup::stays`].
    Remove,
}

impl Cleanup {
    /// Begins once the known leases were told. `whole` says that no lease was missing among them.
    #[must_use]
    pub fn new(over: SessionOver, now: Moment, whole: bool, retention: Duration) -> Self {
        let next = if whole { now + SEARCH_AGAIN } else { now };
        let retention = retention.max(SEARCH_AGAIN);
        Self { over, since: now, next, pause: SEARCH_AGAIN, bare: false, retention }
    }

    /// Whether its leases must be searched for now.
    #[must_use]
    pub fn is_due(&self, now: Moment) -> bool {
        self.next <= now
    }

    /// Whether a search found that no lease is left. An end that is reported after that is a different one, of a store
    /// that went backwards.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// A search is done, and the leases that are `left` were told.
    pub fn searched(&mut self, left: bool, now: Moment) -> CleanupEffect {
        let settled = self.since + SEARCH_AGAIN;
        if left {
            self.next = now + self.pause;
            // A pinned lease may stay for a long time.
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        } else if now < settled {
            self.next = settled;
        } else if self.bare {
            return CleanupEffect::Remove;
        } else {
            (self.bare, self.next) = (true, now + self.retention);
            return CleanupEffect::Forget;
        }
        CleanupEffect::Wait
    }

    pub fn failed(&mut self, now: Moment) {
        self.next = now + RETRY;
    }

    /// The record could not be removed.
    pub fn stays(&mut self, now: Moment) {
        self.next = now + SEARCH_AGAIN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{primitives::Nonce, records::ChangeKind};

    const RETENTION: Duration = Duration::from_secs(300);

    fn begun(whole: bool) -> (Cleanup, Moment) {
        let over = SessionOver::new(Nonce(7), ChangeKind::Expired, None, None);
        let now = Moment::ZERO + Duration::from_secs(1000);
        (Cleanup::new(over, now, whole, RETENTION), now)
    }

    #[test]
    fn the_record_goes_after_two_searches_that_are_the_retention_apart() {
        let (mut cleanup, begun) = begun(true);
        assert!(!cleanup.is_due(begun));
        let first = begun + SEARCH_AGAIN;
        assert_eq!(cleanup.searched(false, first), CleanupEffect::Forget);
        assert!(cleanup.is_bare() && !cleanup.is_due(first + RETENTION - RETRY));
        let second = first + RETENTION;
        assert!(cleanup.is_due(second));
        assert_eq!(cleanup.searched(false, second), CleanupEffect::Remove);
        cleanup.stays(second);
        assert!(!cleanup.is_due(second) && cleanup.is_due(second + SEARCH_AGAIN));
    }

    #[test]
    fn a_search_that_is_too_early_to_see_a_late_grant_settles_nothing() {
        let (mut cleanup, begun) = begun(false);
        assert!(cleanup.is_due(begun));
        assert_eq!(cleanup.searched(false, begun), CleanupEffect::Wait);
        assert!(!cleanup.is_due(begun) && cleanup.is_due(begun + SEARCH_AGAIN));
    }

    #[test]
    fn leases_that_stay_are_looked_for_more_and_more_seldom() {
        let (mut cleanup, mut now) = begun(true);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let from = now;
            assert_eq!(cleanup.searched(true, now), CleanupEffect::Wait);
            while !cleanup.is_due(now) {
                now = now + RETRY;
            }
            pauses.push(now.since(from).as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        cleanup.failed(now);
        assert!(cleanup.is_due(now + RETRY));
    }
}
