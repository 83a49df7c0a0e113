//! True time: tokio's paused clock since the start of the run.

use std::{
    cell::Cell,
    sync::Mutex,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use tenure::{clock::Clock, lease::Moment};
use tokio::time::Instant;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

thread_local! {
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// True time starts.
pub fn begin() {
    START.set(Some(Instant::now()));
}

/// Nanoseconds of true time.
pub fn now() -> u64 {
    START.get().map_or(0, |start| u64::try_from(start.elapsed().as_nanos()).unwrap_or(0))
}

/// Sleeps until an instant of true time.
pub async fn until(at: u64) {
    tokio::time::sleep(Duration::from_nanos(at.saturating_sub(now()))).await;
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The clock of one machine: at a rate and an offset of its own.
#[derive(Debug)]
pub struct SimClock(Mutex<Reading>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// True time at which the reading was `base`.
    from: u64,
    base: u64,
    /// Parts per million that it is faster than true time.
    ppm: i64,
    /// The wall clock at true time 0, in milliseconds.
    wall: u64,
}

impl Reading {
    fn local(&self, true_ns: u64) -> u64 {
        let span = i128::from(true_ns) - i128::from(self.from);
        let gone = span * i128::from(1_000_000 + self.ppm) / 1_000_000;
        u64::try_from((i128::from(self.base) + gone).max(0)).unwrap_or(u64::MAX)
    }
}

impl SimClock {
    pub fn new(base: u64, ppm: i64, wall: u64) -> Self {
        Self(Mutex::new(Reading { from: now(), base, ppm, wall }))
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True time at which this clock shows a reading, rounded up.
    pub fn true_at(&self, local: u64) -> u64 {
        let reading = *self.reading();
        let span = i128::from(local) - i128::from(reading.base);
        let gone = (span * 1_000_000).div_euclid(i128::from(1_000_000 + reading.ppm)) + 1;
        u64::try_from(i128::from(reading.from) + gone).unwrap_or(0)
    }

    /// The machine starts again: the monotonic clock begins anew.
    pub fn reboot(&self, base: u64) {
        let mut reading = self.reading();
        (reading.from, reading.base) = (now(), base);
    }

    /// The clock missed the last `span` nanoseconds, and the wall clock did not.
    pub fn missed(&self, span: u64) {
        let mut reading = self.reading();
        let local = reading.local(now().saturating_sub(span));
        (reading.from, reading.base) = (now(), local);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall(&self, by_ms: i64) {
        let mut reading = self.reading();
        reading.wall = reading.wall.saturating_add_signed(by_ms);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        Moment(self.reading().local(now()))
    }

    fn wall_ms(&self) -> u64 {
        let reading = *self.reading();
        // Its rate is that of the machine.
        let gone = i128::from(now()) * i128::from(1_000_000 + reading.ppm) / 1_000_000_000_000;
        reading.wall.saturating_add(u64::try_from(gone).unwrap_or(0))
    }
}
