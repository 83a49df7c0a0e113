//! The coordinator's wall clock, as far as this host knows it.

use std::{sync::Arc, time::Duration};

use crate::clock::Clock;

/// The longest time to rest without a look at the clock: it may be set at any time.
const MOST: Duration = Duration::from_secs(10);

/// The wall clock of this host, corrected by what the last grant said about the coordinator's.
pub struct Wall {
    clock: Arc<dyn Clock>,
    /// How far the coordinator's clock is ahead, in milliseconds.
    ahead_ms: i64,
}

impl Wall {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead_ms: 0 }
    }

    /// The coordinator's time in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.own_ms().saturating_add_signed(self.ahead_ms)
    }

    /// This host's time in milliseconds since 1970.
    pub fn own_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// The coordinator's clock read `there_ms` at some moment after this host's clock read `sent_ms`, and before now.
    pub fn heard(&mut self, sent_ms: u64, there_ms: u64) {
        let middle = sent_ms.midpoint(self.own_ms());
        let ahead = i128::from(there_ms) - i128::from(middle);
        self.ahead_ms = i64::try_from(ahead).unwrap_or(0);
    }

    /// How long to rest now in order to look at the clock at this moment or earlier.
    pub fn until(&self, at_ms: u64) -> Duration {
        Duration::from_millis(at_ms.saturating_sub(self.now_ms())).min(MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_wrong_clock_is_corrected_by_what_the_coordinator_says() {
        let clock = Arc::new(ManualClock::new());
        clock.set_wall(1_000_000);
        let mut wall = Wall::new(clock.clone());
        assert_eq!((wall.now_ms(), wall.until(1_000_400)), (1_000_000, Duration::from_millis(400)));
        assert_eq!(wall.until(9_000_000), MOST);
        // The answer took 200 ms.
        wall.heard(999_800, 800_900);
        assert_eq!((wall.now_ms(), wall.own_ms()), (801_000, 1_000_000));
        assert_eq!(wall.until(800_000), Duration::ZERO);
    }
}
