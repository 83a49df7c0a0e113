//! Which calls of a session may be repeated ones.
//!
//! Guarantees: a call under whose request id something may have been granted in the last [`REPEATS`] is told from one
//! under a new id, also where the session was at home elsewhere meanwhile, or asked more often than is remembered.
//!
//! Does not guarantee: that something was granted under an id. Only the records say so.

use std::{collections::VecDeque, time::Duration};

use super::Moment;

/// A call is repeated within this, if ever: the longest wait, and some minutes more.
pub const REPEATS: Duration = Duration::from_mins(15);
/// How many request ids of one session are remembered.
const MOST: usize = 256;

/// The request ids under which a session asked lately.
#[derive(Debug, Default)]
pub struct Repeats {
    asked: VecDeque<(u128, Moment)>,
    /// Up to here any id may have been asked before.
    blind_until: Moment,
    /// It was at home elsewhere, or in an earlier process, until it asked here first.
    arrived: bool,
}

impl Repeats {
    /// Of a session that was made here (`fresh`), or came from elsewhere.
    #[must_use]
    pub fn new(fresh: bool) -> Self {
        Self { arrived: !fresh, ..Self::default() }
    }

    /// A call under this id is about to be served: whether one was before, as far as can be excluded.
    pub fn may_be_one(&mut self, id: u128, now: Moment) -> bool {
        if std::mem::take(&mut self.arrived) {
            self.blind_until = now + REPEATS;
        }
        while self.asked.front().is_some_and(|(_, at)| *at + REPEATS <= now) {
            self.asked.pop_front();
        }
        let known = self.asked.iter().any(|(asked, _)| *asked == id);
        if !known {
            if self.asked.len() >= MOST
                && let Some((_, at)) = self.asked.pop_front()
            {
                self.blind_until = self.blind_until.max(at + REPEATS);
            }
            self.asked.push_back((id, now));
        }
        known || now < self.blind_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const START: Moment = Moment(1_000_000_000_000);

    #[test]
    fn only_a_known_id_of_a_session_that_was_made_here_is_a_repeat() {
        let mut repeats = Repeats::new(true);
        assert!(!repeats.may_be_one(1, START));
        assert!(repeats.may_be_one(1, START + SECOND));
        assert!(!repeats.may_be_one(2, START + SECOND));
        assert!(!repeats.may_be_one(1, START + REPEATS), "nobody asks so late");
    }

    #[test]
    fn any_id_of_a_session_from_elsewhere_may_be_one_for_a_while() {
        let mut repeats = Repeats::new(false);
        assert!(repeats.may_be_one(1, START));
        assert!(repeats.may_be_one(2, START + REPEATS - SECOND));
        assert!(!repeats.may_be_one(3, START + REPEATS));
        assert!(repeats.may_be_one(2, START + REPEATS));
    }

    #[test]
    fn any_id_may_be_one_after_more_than_are_remembered() {
        let mut repeats = Repeats::new(true);
        for id in 0..MOST as u128 {
            assert!(!repeats.may_be_one(id, START));
        }
        assert!(repeats.may_be_one(1_000, START), "it may be one that is forgotten");
        assert_eq!(repeats.asked.len(), MOST);
        assert!(!repeats.may_be_one(2_000, START + REPEATS + SECOND));
    }
}
