//! Decides whether and when an ended program is started again. Pure.

use std::time::Duration;

use crate::clock::Chance;

/// A program that ran for less than this ended at once.
const QUICK: Duration = Duration::from_secs(5);
/// The first and the longest pause before the next start.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];
/// The key is given back after this many consecutive programs that failed at once.
const TRIES: u32 = 5;

/// Which programs are started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    #[default]
    Always,
    OnFailure,
    Never,
}

/// What follows the end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Start it again after this pause.
    Again(Duration),
    /// The work is done: keep the key, and run nothing.
    Idle,
    /// Give the key back, so that another worker can try.
    GiveBack,
}

/// The starts under one lease.
#[derive(Clone, Debug)]
pub struct Tries {
    restart: Restart,
    /// The number of consecutive programs that ended at once.
    quick: u32,
    /// The number of consecutive ones that failed.
    failed: u32,
}

impl Tries {
    /// No program was started yet.
    #[must_use]
    pub fn new(restart: Restart) -> Self {
        Self { restart, quick: 0, failed: 0 }
    }

    /// What follows after a program that ended by itself and ran for `ran`.
    pub fn ended(&mut self, success: bool, ran: Duration, chance: &mut Chance) -> Next {
        match (self.restart, success) {
            (Restart::Never | Restart::OnFailure, true) => return Next::Idle,
            (Restart::Never, false) => return Next::GiveBack,
            _ => {}
        }
        if ran >= QUICK {
            (self.quick, self.failed) = (0, 0);
        }
        self.failed = if success { 0 } else { self.failed + 1 };
        if self.failed >= TRIES {
            return Next::GiveBack;
        }
        let pause = PAUSES[0].saturating_mul(1 << self.quick.min(16)).min(PAUSES[1]);
        self.quick += 1;
        Next::Again(pause / 2 + chance.jitter(pause / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(restart: Restart, ends: &[(bool, u64)]) -> Vec<Next> {
        let (mut tries, mut chance) = (Tries::new(restart), Chance::new(7));
        let next = |&(success, ms): &(bool, u64)| {
            tries.ended(success, Duration::from_millis(ms), &mut chance)
        };
        ends.iter().map(next).collect()
    }

    #[test]
    fn the_policy_says_who_is_started_again() {
        let ended = [(true, 9000)];
        let failed = [(false, 9000)];
        assert!(matches!(follow(Restart::Always, &ended)[0], Next::Again(_)));
        assert!(matches!(follow(Restart::OnFailure, &failed)[0], Next::Again(_)));
        assert_eq!(follow(Restart::OnFailure, &ended)[0], Next::Idle);
        assert_eq!(follow(Restart::Never, &ended)[0], Next::Idle);
        assert_eq!(follow(Restart::Never, &failed)[0], Next::GiveBack);
    }

    #[test]
    fn one_that_fails_at_once_again_and_again_gives_its_key_back() {
        let nexts = follow(Restart::Always, &[(false, 1); 5]);
        assert!(nexts[..4].iter().all(|next| matches!(next, Next::Again(_))));
        assert_eq!(nexts[4], Next::GiveBack);
        let long = follow(
            Restart::Always,
            &[(false, 1), (false, 1), (false, 1), (false, 6000), (false, 1)],
        );
        assert!(long.iter().all(|next| matches!(next, Next::Again(_))), "{long:?}");
    }

    #[test]
    fn pauses_grow_and_have_a_bound() {
        let nexts = follow(Restart::Always, &[(true, 1); 40]);
        let pauses: Vec<_> = nexts
            .iter()
            .map(|next| match next {
                Next::Again(pause) => *pause,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(pauses[0] <= PAUSES[0] && pauses[0] >= PAUSES[0] / 2);
        assert!(pauses[39] <= PAUSES[1] && pauses[39] >= PAUSES[1] / 2);
        let long = follow(Restart::Always, &[(true, 1), (true, 1), (true, 9000)]);
        assert!(matches!(long[2], Next::Again(pause) if pause <= PAUSES[0]));
    }
}
