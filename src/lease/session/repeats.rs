//! Which calls of a session may be repeats of earlier ones.
//!
//! Guarantees: a call is recognised as a possible repeat if something may have been granted under its request id in the
//! last [`REPEATS`]. This holds even if the session had another home node meanwhile, or made more calls than are
//! remembered.
//!
//! Does not guarantee: that something was granted under the id. Only the records say so.

use std::{collections::VecDeque, time::Duration};

use crate::lease::primitives::Moment;

/// The time within which a call is repeated, if ever: the longest wait, and some minutes more.
pub const REPEATS: Duration = Duration::from_mins(15);
/// The number of request ids that are remembered for one session.
const MOST: usize = 256;

/// The request ids that a session used recently.
#[derive(Debug, Default)]
pub struct Repeats {
    asked: VecDeque<(u128, Moment)>,
    /// Until this moment, any id may have been used before.
    blind_until: Moment,
    /// The session came from another home node or from an earlier process, and has not called here since.
    adopted: bool,
}

impl Repeats {
    /// For a session that was created here (`fresh`) or came from elsewhere.
    #[must_use]
    pub fn new(fresh: bool) -> Self {
        Self { adopted: !fresh, ..Self::default() }
    }

    /// A call under this id is about to be served. Returns whether an earlier one may have been.
    pub fn may_be_one(&mut self, id: u128, now: Moment) -> bool {
        if std::mem::take(&mut self.adopted) {
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
        assert!(!repeats.may_be_one(1, START + REPEATS), "no caller asks so late");
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
        assert!(repeats.may_be_one(1_000, START), "it may be a forgotten one");
        assert_eq!(repeats.asked.len(), MOST);
        assert!(!repeats.may_be_one(2_000, START + REPEATS + SECOND));
    }
}
