//! Clocks for tests and the simulator.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::Clock;
use crate::lease::Moment;

/// One second before the reading exceeds a signed integer of 64 bits.
const HOSTILE_START: Moment = Moment(i64::MAX as u64 - 1_000_000_000);
/// Half a second before a 32-bit count of seconds since 1970 overflows.
const HOSTILE_WALL_MS: u64 = (1 << 31) * 1000 - 500;

/// A clock that moves only when a test moves it. Clones share it.
///
/// It starts at a hostile point: within one second, the reading leaves the range of an `i64` and the wall clock leaves
/// the range of a 32-bit `time_t`.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Reading>>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    now: Moment,
    wall_ms: u64,
    /// The part of the last millisecond that the wall clock does not show yet, in nanoseconds.
    wall_rest: u32,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(HOSTILE_START, HOSTILE_WALL_MS)
    }
}

impl ManualClock {
    /// A clock at the hostile start.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that starts at a chosen point.
    #[must_use]
    pub fn at(now: Moment, wall_ms: u64) -> Self {
        Self(Arc::new(Mutex::new(Reading { now, wall_ms, wall_rest: 0 })))
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, span: Duration) {
        let mut reading = self.reading();
        reading.now = reading.now + span;
        reading.pass_wall(span);
    }

    /// Lets time pass until the reading is `moment`; no time if that is past.
    pub fn advance_to(&self, moment: Moment) {
        let now = self.reading().now;
        self.advance(moment.since(now));
    }

    /// A pause that the monotonic clock missed, as after a hypervisor stopped the machine. Only the wall clock gains.
    pub fn pause_unseen(&self, span: Duration) {
        self.reading().pass_wall(span);
    }

    /// Sets the wall clock, in milliseconds since 1970.
    pub fn set_wall(&self, wall_ms: u64) {
        let mut reading = self.reading();
        (reading.wall_ms, reading.wall_rest) = (wall_ms, 0);
    }

    fn reading(&self) -> MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    fn pass_wall(&mut self, span: Duration) {
        let nanos = u128::from(self.wall_rest) + span.as_nanos();
        let millis = u64::try_from(nanos / 1_000_000).unwrap_or(u64::MAX);
        self.wall_ms = self.wall_ms.saturating_add(millis);
        self.wall_rest = u32::try_from(nanos % 1_000_000).unwrap_or(0);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        self.reading().now
    }

    fn wall_ms(&self) -> u64 {
        self.reading().wall_ms
    }
}

/// A clock that follows the clock of tokio. In a runtime that starts with its time paused, timers and this clock move
/// together. It starts where [`ManualClock`] does.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    origin: tokio::time::Instant,
}

impl Default for VirtualClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place that lifts the ban")]
    fn default() -> Self {
        Self { origin: tokio::time::Instant::now() }
    }
}

impl VirtualClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        HOSTILE_START + self.origin.elapsed()
    }

    fn wall_ms(&self) -> u64 {
        let passed = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        HOSTILE_WALL_MS.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_clock_that_moves_only_when_told() {
        let clock = ManualClock::new();
        let (now, wall) = (clock.now(), clock.wall_ms());
        let other = clock.clone();
        for _ in 0..4 {
            other.advance(Duration::from_micros(1_250_250));
        }
        assert_eq!(clock.now().since(now), Duration::from_micros(5_001_000));
        assert_eq!(clock.wall_ms() - wall, 5_001);
        assert!(i64::try_from(clock.now().0).is_err(), "the start is hostile");

        other.set_wall(7);
        other.pause_unseen(Duration::from_secs(3));
        assert_eq!(clock.wall_ms(), 3_007);
        let target = now + Duration::from_secs(60);
        other.advance_to(target);
        other.advance_to(now);
        assert_eq!(clock.now(), target);
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_moves_with_the_timers() {
        let clock = VirtualClock::new();
        let (now, wall) = (clock.now(), clock.wall_ms());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().since(now), Duration::from_secs(3600));
        assert_eq!(clock.wall_ms() - wall, 3_600_000);
    }
}
