//! The coordinator's wall clock, as far as this host knows it.

use std::{sync::Arc, time::Duration};

use crate::{clock::Clock, lease::Moment};

/// The longest time to rest without a look at the clock: until a coordinator is heard, it may be set at any time.
const MOST: Duration = Duration::from_secs(10);
/// After this time, the coordinator's clock must be heard again: it may have been set.
const AGE: Duration = Duration::from_secs(600);

/// What a grant said about the coordinator's wall clock, continued by a clock of this host that nobody sets.
pub struct Wall {
    clock: Arc<dyn Clock>,
    /// What the coordinator's clock read, in milliseconds since 1970, and when this host heard of it.
    heard: Option<(u64, Moment)>,
}

impl Wall {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, heard: None }
    }

    /// The coordinator's time in milliseconds since 1970, or a little earlier. Before a coordinator was heard, the time
    /// of this host.
    pub fn now_ms(&self) -> u64 {
        let Some((there_ms, at)) = self.heard else { return self.clock.wall_ms() };
        let since = self.clock.now().since(at).as_millis();
        there_ms.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// The coordinator's clock read this in an answer that came just now. It may be later there, and never is earlier.
    pub fn hear(&mut self, there_ms: u64) {
        self.heard = Some((there_ms, self.clock.now()));
    }

    /// Whether the coordinator's clock must be heard again.
    pub fn is_old(&self) -> bool {
        self.heard.is_some_and(|(_, at)| self.clock.now().since(at) > AGE)
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
    fn once_the_coordinator_is_heard_nobody_sets_the_clock_of_this_host() {
        let clock = Arc::new(ManualClock::new());
        clock.set_wall(1_000_000);
        let mut wall = Wall::new(clock.clone());
        assert_eq!((wall.now_ms(), wall.until(1_000_400)), (1_000_000, Duration::from_millis(400)));
        assert_eq!(wall.until(9_000_000), MOST);
        wall.hear(801_000);
        clock.set_wall(2_000_000);
        clock.advance(Duration::from_millis(500));
        assert_eq!((wall.now_ms(), wall.until(801_000)), (801_500, Duration::ZERO));
        assert!(!wall.is_old());
        clock.advance(AGE);
        assert!(wall.is_old());
        wall.hear(9_000_000);
        assert_eq!((wall.now_ms(), wall.is_old()), (9_000_000, false));
    }
}
