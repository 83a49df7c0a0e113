//! Judges from readings of a thread's lateness whether it has more work than it can do.
//!
//! Guarantees: a pause of any length, after which the thread catches up, is no overload. A thread that is late in every
//! reading for [`RUN`] is overloaded, until a reading is at most half the limit. If it is late again within [`MEMORY`],
//! it is overloaded at once.
//!
//! Does not guarantee: to notice overload before the thread gets to take a reading.

use std::time::Duration;

use crate::lease::Moment;

/// For how long every reading must be late before the thread counts as overloaded. The lateness of a single reading
/// may be a pause of the machine.
const RUN: Duration = Duration::from_millis(50);
/// For how long an overload is remembered. While the callers stay too many, the thread is late again as soon as it
/// accepts their calls.
const MEMORY: Duration = Duration::from_secs(1);

/// How late a thread was in its last readings.
#[derive(Clone, Copy, Debug)]
pub struct Lag {
    limit: Duration,
    /// The first of the readings that were late one after the other.
    late_since: Option<Moment>,
    is_over: bool,
    /// Until then, one late reading is enough.
    wary_until: Moment,
}

impl Lag {
    /// A thread that may be late by `limit`.
    pub fn new(limit: Duration) -> Self {
        Self { limit, late_since: None, is_over: false, wary_until: Moment::ZERO }
    }

    /// A reading: the thread did at `now` what it was to do earlier by `late`.
    pub fn read(&mut self, now: Moment, late: Duration) {
        let limit = if self.is_over { self.limit / 2 } else { self.limit };
        if late <= limit {
            self.late_since = None;
            if std::mem::take(&mut self.is_over) {
                self.wary_until = now + MEMORY;
            }
            return;
        }
        let since = *self.late_since.get_or_insert(now);
        if now < self.wary_until || now.since(since) >= RUN {
            self.is_over = true;
        }
    }

    /// Whether the thread has more work than it can do.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock as _, ManualClock};

    const LIMIT: Duration = Duration::from_millis(20);

    struct Thread {
        clock: ManualClock,
        lag: Lag,
    }

    impl Thread {
        fn new() -> Self {
            Self { clock: ManualClock::new(), lag: Lag::new(LIMIT) }
        }

        /// Takes readings, each of which is late by so many milliseconds. Returns the judgement after each.
        fn late<const N: usize>(&mut self, late_ms: [u64; N]) -> [bool; N] {
            late_ms.map(|ms| {
                let late = Duration::from_millis(ms);
                self.clock.advance(Duration::from_millis(5) + late);
                self.lag.read(self.clock.now(), late);
                self.lag.is_over()
            })
        }
    }

    #[test]
    fn a_pause_is_no_overload_and_a_thread_that_stays_late_is_overloaded_soon() {
        let mut thread = Thread::new();
        assert_eq!(thread.late([0, 1, 20, 0]), [false; 4]);
        assert_eq!(
            thread.late([5000, 3, 80, 0, 45, 45, 1]),
            [false, false, false, false, false, true, false]
        );
        let mut thread = Thread::new();
        // Readings that are 26 ms apart: the third is 52 ms after the first.
        assert_eq!(thread.late([21, 21, 21, 21]), [false, false, true, true]);
    }

    #[test]
    fn overload_ends_when_the_lateness_has_halved_and_is_remembered_for_a_second() {
        let mut thread = Thread::new();
        assert_eq!(thread.late([100, 100, 20, 11, 10]), [false, true, true, true, false]);
        assert_eq!(thread.late([15, 21, 21, 9]), [false, true, true, false]);
        // 981 ms later.
        assert_eq!(thread.late([15, 15, 936, 3, 100]), [false, false, true, false, true]);
        thread.late([0]);
        thread.clock.advance(MEMORY);
        assert_eq!(thread.late([21, 21, 0]), [false; 3]);
    }
}
