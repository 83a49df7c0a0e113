//! How many calls per second one caller may make.
//!
//! Guarantees: over a long time, no more calls are admitted than the rate says. At once, at most those of one second. A
//! call that turns out to be about many leases counts as that many: what it costs beyond one is paid before the next
//! call.
//!
//! Does not guarantee: a rate over several nodes.

use std::{
    fmt,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use governor::{
    Quota, RateLimiter,
    clock::Clock as GovernorClock,
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};

use super::needs::Pace;
use crate::{clock::Clock, lease::Moment};

/// The time since the cell was made, on the node's clock.
#[derive(Clone)]
struct Since {
    clock: Arc<dyn Clock>,
    origin: Moment,
}

/// The cell to which a call is charged; `None` if its caller has no rate.
pub type Charged = Option<Arc<Cell>>;

/// A rate, and what is left of it.
pub struct Cell {
    rate: NonZeroU32,
    limiter: RateLimiter<NotKeyed, InMemoryState, Since, NoOpMiddleware<Nanos>>,
    time: Since,
    /// What calls cost beyond what they paid.
    owed: AtomicU64,
}

/// The cells of one principal: of what keeps and ends leases, and of everything else. Both have the principal's rate, so
/// new work never takes the rate of what keeps leases.
#[derive(Debug, Default)]
pub struct Cells([ArcSwapOption<Cell>; 2]);

impl GovernorClock for Since {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        let passed = self.clock.now().since(self.origin);
        Nanos::from(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Cell {
    /// A cell that is full: of the calls of one second.
    pub fn new(rate: NonZeroU32, clock: &Arc<dyn Clock>) -> Self {
        let time = Since { clock: clock.clone(), origin: clock.now() };
        let limiter = RateLimiter::direct_with_clock(Quota::per_second(rate), time.clone());
        Self { rate, limiter, time, owed: AtomicU64::new(0) }
    }

    /// The calls per second.
    pub fn rate(&self) -> u32 {
        self.rate.get()
    }

    /// Pays for a call, after all that earlier calls owe.
    ///
    /// # Errors
    /// How long to wait before the next attempt.
    pub fn pay(&self) -> Result<(), Duration> {
        self.settled()?;
        self.limiter.check().map_err(|until| until.wait_time_from(self.time.now()))
    }

    /// Charges a call that was paid for with more, which is paid before the next call.
    pub fn owe(&self, more: u64) {
        self.owed.fetch_add(more, Relaxed);
    }

    /// Requires that all that was charged is paid.
    ///
    /// # Errors
    /// How long to wait before the next attempt.
    pub fn settled(&self) -> Result<(), Duration> {
        if self.owed.load(Relaxed) == 0 { Ok(()) } else { self.settle() }
    }

    /// How long the cell needs until it is as good as a new one, if nobody calls.
    pub fn recovery(&self) -> Duration {
        Duration::from_secs(1) + self.span(self.owed.load(Relaxed))
    }

    /// Pays of what is owed as much as there is.
    fn settle(&self) -> Result<(), Duration> {
        // Another thread finds nothing owed meanwhile, and pays for its own call.
        let mut owed = self.owed.swap(0, Relaxed);
        let most = |owed: u64| u32::try_from(owed).unwrap_or(u32::MAX).min(self.rate.get());
        let mut part = most(owed);
        while let Some(paid) = NonZeroU32::new(part) {
            if matches!(self.limiter.check_n(paid), Ok(Ok(()))) {
                owed -= u64::from(part);
                part = part.min(most(owed));
            } else {
                part /= 2;
            }
        }
        if owed == 0 {
            return Ok(());
        }
        self.owe(owed);
        Err(self.span(owed))
    }

    /// The time in which the rate brings so much.
    fn span(&self, calls: u64) -> Duration {
        Duration::from_secs(calls) / self.rate.get()
    }
}

impl Cells {
    /// The cell for calls of this kind, with this rate. If the rate is another one than before, the cell is a new one.
    pub fn of(&self, pace: Pace, rate: NonZeroU32, clock: &Arc<dyn Clock>) -> Arc<Cell> {
        let place = &self.0[pace as usize];
        if let Some(cell) = place.load_full().filter(|cell| cell.rate == rate) {
            return cell;
        }
        let cell = Arc::new(Cell::new(rate, clock));
        place.store(Some(cell.clone()));
        cell
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("rate", &self.rate).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(rate: u32) -> NonZeroU32 {
        NonZeroU32::new(rate).expect("a rate")
    }

    /// A clock, and the same clock as cells know it.
    fn clocks() -> (Arc<ManualClock>, Arc<dyn Clock>) {
        let clock = Arc::new(ManualClock::new());
        (clock.clone(), clock)
    }

    /// How many calls in a row are admitted.
    fn admitted(cell: &Cell) -> u32 {
        let mut count = 0;
        while cell.pay().is_ok() {
            count += 1;
        }
        count
    }

    #[test]
    fn the_calls_of_one_second_are_admitted_at_once_and_then_as_many_as_the_rate_says() {
        let (clock, known) = clocks();
        let cell = Cell::new(rate(10), &known);
        assert_eq!(admitted(&cell), 10);
        assert_eq!(cell.pay(), Err(SECOND / 10));
        clock.advance(SECOND / 10);
        assert_eq!(admitted(&cell), 1);
        clock.advance(SECOND / 2);
        assert_eq!(admitted(&cell), 5);
        clock.advance(60 * SECOND);
        assert_eq!(admitted(&cell), 10);
    }

    #[test]
    fn a_call_about_many_leases_is_admitted_and_paid_before_the_next() {
        let (clock, known) = clocks();
        let cell = Cell::new(rate(10), &known);
        assert_eq!(cell.pay(), Ok(()));
        cell.owe(24);
        assert_eq!(cell.recovery(), SECOND + SECOND * 24 / 10);
        // The nine that are left are paid of it, and 15 are owed.
        assert_eq!(cell.pay(), Err(SECOND * 15 / 10));
        clock.advance(SECOND);
        assert_eq!(cell.pay(), Err(SECOND * 5 / 10));
        clock.advance(SECOND * 6 / 10);
        assert_eq!(admitted(&cell), 1);
        assert_eq!(cell.recovery(), SECOND);
    }

    #[test]
    fn the_two_kinds_of_calls_have_a_rate_each_and_another_rate_counts_at_once() {
        let (_, known) = clocks();
        let cells = Cells::default();
        let cell = |pace, calls| cells.of(pace, rate(calls), &known);
        assert_eq!(admitted(&cell(Pace::Other, 3)), 3);
        assert!(cell(Pace::Other, 3).pay().is_err(), "it is the same cell");
        assert_eq!(admitted(&cell(Pace::Keeps, 3)), 3);
        assert_eq!(admitted(&cell(Pace::Other, 5)), 5);
    }

    #[test]
    fn any_rate_of_the_file_is_one() {
        let (clock, known) = clocks();
        for calls in [1, 7, 1_000_000, u32::MAX] {
            let cell = Cell::new(rate(calls), &known);
            assert_eq!(cell.pay(), Ok(()), "{calls}");
            cell.owe(u64::from(calls) - 1);
            clock.advance(2 * SECOND);
            assert_eq!(cell.pay(), Ok(()), "{calls}");
        }
    }
}
