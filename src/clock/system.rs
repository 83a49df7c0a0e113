//! The machine's clock.

use super::Clock;
use crate::lease::Moment;

/// The clock of the machine: on Linux `MONOTONIC_RAW + (BOOTTIME − MONOTONIC)`.
///
/// `MONOTONIC_RAW` is not slewed by NTP but stops in suspend. The difference of the other two is the time spent in
/// suspend. On other systems this is the monotonic clock of the standard library, which may stop in suspend.
#[derive(Debug, Default)]
pub struct SystemClock(imp::Source);

impl SystemClock {
    /// The clock. Two instances agree on Linux, but need not on other systems.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(self.0.nanos())
    }

    fn wall_ms(&self) -> u64 {
        #[cfg(feature = "testing")]
        return super::set_wall::moved(imp::wall_ms());
        #[cfg(not(feature = "testing"))]
        imp::wall_ms()
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn boottime_ms(&self) -> u64 {
        imp::boottime_ms()
    }
}

/// A reading of `CLOCK_BOOTTIME` in milliseconds: a number that all processes of this machine can compare, including
/// shell scripts (`/proc/uptime`). Its zero differs from that of [`SystemClock`], and so does its rate, by what NTP
/// slews. Only the time between two readings is meaningful. Where there is no such clock, this is the system's
/// monotonic clock.
#[must_use]
pub fn boottime_ms() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let now = imp::boottime_ms();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let now = {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
    };
    now
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::time::{ClockId, clock_gettime};

    /// The longest suspend seen so far, in nanoseconds. It is never more than the true one.
    #[derive(Debug, Default)]
    pub(super) struct Source(AtomicU64);

    impl Source {
        /// A thread that loses the processor between the two readings sees `boot` too early, so the difference is too
        /// small, never too large. The maximum of all such differences is therefore a lower bound that never goes back,
        /// and the sum never goes back either.
        ///
        /// `raw` is read first. A suspend in between is then counted as if `raw` were read after it.
        pub(super) fn nanos(&self) -> u64 {
            let raw = read(ClockId::MonotonicRaw);
            let boot = read(ClockId::Boottime);
            let slept = boot.saturating_sub(read(ClockId::Monotonic));
            let known = self.0.load(Ordering::Acquire);
            if slept <= known {
                return raw + known;
            }
            raw + slept.max(self.0.fetch_max(slept, Ordering::AcqRel))
        }
    }

    pub(super) fn wall_ms() -> u64 {
        let now = clock_gettime(ClockId::Realtime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds * 1000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
    }

    pub(super) fn boottime_ms() -> u64 {
        read(ClockId::Boottime) / 1_000_000
    }

    fn read(id: ClockId) -> u64 {
        let now = clock_gettime(id);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[expect(clippy::disallowed_methods, reason = "this is the place that lifts the ban")]
mod imp {
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    #[derive(Debug)]
    pub(super) struct Source(Instant);

    impl Default for Source {
        fn default() -> Self {
            Self(Instant::now())
        }
    }

    impl Source {
        pub(super) fn nanos(&self) -> u64 {
            u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
        }
    }

    pub(super) fn wall_ms() -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_thread_sees_a_reading_earlier_than_one_that_was_published() {
        let clock = SystemClock::new();
        let published = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let seen = published.load(Ordering::SeqCst);
                        let now = clock.now().0;
                        assert!(now >= seen, "{now} after {seen}");
                        published.fetch_max(now, Ordering::SeqCst);
                    }
                });
            }
        });
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with the clocks of the standard library"
    )]
    fn it_runs_like_the_other_clocks_of_the_machine() {
        let clock = SystemClock::new();
        let (start, from) = (std::time::Instant::now(), clock.now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (upper, span) = (clock.now().since(from), start.elapsed());
        assert!(upper.as_millis() >= 19 && upper <= span + span / 10, "{upper:?} of {span:?}");
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!(u128::from(clock.wall_ms()).abs_diff(wall.as_millis()) < 1000);
    }
}
