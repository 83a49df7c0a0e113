//! Detects time that passed and that the monotonic clock did not count.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use super::Clock;
use crate::lease::Moment;

/// A wall clock that moved against the node's clock by more than this may mean that the node's clock missed a pause (§2).
const TOLERATED_MS: i64 = 1000;
/// Both readings are cut to whole milliseconds, so their difference varies by one.
const ROUNDING_MS: i64 = 1;
/// Two readings of the node's clock with a reading of the wall clock between them belong together when they are at most
/// this far apart.
const TOGETHER: Duration = Duration::from_millis(50);
/// How many times to try for readings that belong together. After that, the last readings are used as they are.
const TRIES: u32 = 10;
/// No check was made yet.
const UNSET: i64 = i64::MIN;

/// Notices when the wall clock moves by more than one second against the node's clock between two checks. The cause of a
/// gain is a pause by the hypervisor, a resumed snapshot, or a change of the wall clock, which cannot be distinguished
/// from the first two. A wall clock that was set back may hide such a pause, and counts as one.
///
/// Guarantees: a move is reported to one caller, once, and no other check returns before that caller has handled
/// it. A thread that loses the processor during a check causes no report.
///
/// Does not guarantee: to see a pause when the wall clock was set back by as much, to within a second, between the same
/// two checks.
///
/// Assumes: it is called before every answer that carries a promise, and after the reading of the clock on which that
/// promise was decided.
#[derive(Debug)]
pub struct JumpDetector {
    /// The wall clock minus the node's clock at the last check, in milliseconds.
    offset: AtomicI64,
    /// Held while both clocks are read with care and a jump is handled: one thread at a time.
    looks: Mutex<()>,
}

impl Default for JumpDetector {
    fn default() -> Self {
        Self { offset: AtomicI64::new(UNSET), looks: Mutex::new(()) }
    }
}

impl JumpDetector {
    /// A detector whose first check sets the base.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks a reading of the node's clock, and a reading of the wall clock that was taken after it. If the wall clock
    /// moved by more than one second since the last check, calls `handle` with the move, in milliseconds, before any
    /// later check returns. Returns whether it did. Lock-free as long as nothing moved.
    pub fn check(
        &self,
        clock: &dyn Clock,
        (now, wall_ms): (Moment, u64),
        handle: impl FnOnce(i64),
    ) -> bool {
        let base = self.offset.load(Ordering::Acquire);
        let ours = now.0 / 1_000_000;
        if base != UNSET && (offset(wall_ms, ours) - base).abs() <= ROUNDING_MS {
            return false;
        }
        self.settle(clock, handle)
    }

    /// Reads both clocks with care. The result becomes the new base once a jump is handled.
    #[cold]
    fn settle(&self, clock: &dyn Clock, handle: impl FnOnce(i64)) -> bool {
        let _alone = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let base = self.offset.load(Ordering::Acquire);
        let found = careful_offset(clock);
        let gain_ms = if base == UNSET { 0 } else { found - base };
        let jumped = gain_ms.abs() > TOLERATED_MS;
        if jumped {
            handle(gain_ms);
        }
        self.offset.store(found, Ordering::Release);
        jumped
    }
}

/// The offset from a reading of the wall clock between two readings of the node's clock that are close together. So
/// time in which this thread did not run does not look like a jump.
fn careful_offset(clock: &dyn Clock) -> i64 {
    let mut before = clock.now();
    for _ in 1..TRIES {
        let wall_ms = clock.wall_ms();
        let after = clock.now();
        if after.since(before) <= TOGETHER {
            return offset(wall_ms, before.0 / 1_000_000);
        }
        before = after;
    }
    offset(clock.wall_ms(), before.0 / 1_000_000)
}

/// The difference, cut to half the range, so that the difference of two offsets never overflows.
fn offset(wall_ms: u64, ours_ms: u64) -> i64 {
    let limit = i128::from(i64::MAX / 2);
    let exact = i128::from(wall_ms) - i128::from(ours_ms);
    i64::try_from(exact.clamp(-limit, limit)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::{
        clock::{ManualClock, SystemClock},
        lease::Moment,
    };

    /// The move in milliseconds, if there is one.
    fn check(jumps: &JumpDetector, clock: &dyn Clock) -> Option<i64> {
        let (now, mut heard) = (clock.now(), None);
        jumps.check(clock, (now, clock.wall_ms()), |gain_ms| heard = Some(gain_ms));
        heard
    }

    const YEAR_MS: i64 = 365 * 86_400_000;

    #[test]
    fn a_gain_of_more_than_a_second_is_reported_once() {
        let (clock, jumps) = (ManualClock::new(), JumpDetector::new());
        assert_eq!(check(&jumps, &clock), None, "the first check sets the base");
        clock.advance(Duration::from_secs(86_400));
        assert_eq!(check(&jumps, &clock), None);

        clock.pause_unseen(Duration::from_millis(1000));
        assert_eq!(check(&jumps, &clock), None);
        clock.pause_unseen(Duration::from_millis(1001));
        assert_eq!(check(&jumps, &clock), Some(1001));
        assert_eq!(check(&jumps, &clock), None);
    }

    #[test]
    fn a_wall_clock_that_is_set_back_or_forward_may_hide_a_pause() {
        let (clock, jumps) = (ManualClock::new(), JumpDetector::new());
        assert_eq!(check(&jumps, &clock), None);
        let wall = clock.wall_ms();
        let year = YEAR_MS.unsigned_abs();
        clock.set_wall(wall - year);
        clock.pause_unseen(Duration::from_secs(5));
        assert_eq!(check(&jumps, &clock), Some(5000 - YEAR_MS), "a pause behind it");
        assert_eq!(check(&jumps, &clock), None);
        clock.pause_unseen(Duration::from_secs(2));
        assert_eq!(check(&jumps, &clock), Some(2000), "judged from the new base");
        clock.set_wall(wall + year);
        assert_eq!(check(&jumps, &clock), Some(2 * YEAR_MS - 7000));
        clock.set_wall(wall + year - 1000);
        assert_eq!(check(&jumps, &clock), None, "a second is tolerated");
        clock.set_wall(0);
        assert!(check(&jumps, &clock).is_some());
        clock.set_wall(u64::MAX);
        assert!(check(&jumps, &clock).is_some(), "no overflow at the end of the range");
    }

    #[test]
    fn small_slews_never_add_up_to_a_jump() {
        let (clock, jumps) = (ManualClock::new(), JumpDetector::new());
        for _ in 0..10_000 {
            clock.advance(Duration::from_millis(777));
            clock.pause_unseen(Duration::from_micros(700));
            assert_eq!(check(&jumps, &clock), None);
        }
    }

    /// A clock whose reader loses the processor for two seconds after every third reading.
    struct Starved(ManualClock, AtomicU32);

    impl Starved {
        fn maybe_sleep(&self) {
            if self.1.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
                self.0.advance(Duration::from_secs(2));
            }
        }
    }

    impl Clock for Starved {
        fn now(&self) -> Moment {
            let now = self.0.now();
            self.maybe_sleep();
            now
        }
        fn wall_ms(&self) -> u64 {
            let wall_ms = self.0.wall_ms();
            self.maybe_sleep();
            wall_ms
        }
    }

    #[test]
    fn a_starved_reader_is_not_taken_for_a_jump() {
        let (clock, jumps) = (Starved(ManualClock::new(), AtomicU32::new(0)), JumpDetector::new());
        for _ in 0..300 {
            assert_eq!(check(&jumps, &clock), None);
        }
        clock.0.pause_unseen(Duration::from_secs(5));
        assert_eq!(check(&jumps, &clock).map(|gain_ms| gain_ms / 1000), Some(5));
    }

    #[test]
    fn of_many_threads_exactly_one_hears_of_each_jump() {
        let (clock, jumps) = (ManualClock::new(), JumpDetector::new());
        let heard = AtomicU32::new(0);
        assert_eq!(check(&jumps, &clock), None);
        for _ in 0..50 {
            clock.pause_unseen(Duration::from_secs(10));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..20 {
                            heard.fetch_add(
                                u32::from(check(&jumps, &clock).is_some()),
                                Ordering::Relaxed,
                            );
                        }
                    });
                }
            });
        }
        assert_eq!(heard.into_inner(), 50);
    }

    #[test]
    fn a_machine_in_order_is_never_reported() {
        let (clock, jumps) = (SystemClock::new(), JumpDetector::new());
        for _ in 0..100_000 {
            assert_eq!(check(&jumps, &clock), None);
        }
    }
}
