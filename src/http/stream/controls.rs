//! How many pings and pongs a client may send.
//!
//! Guarantees: over a long time, no more than [`PER_SECOND`] are served. A client that sends one each second may be cut
//! off from the coordinator for a minute, and send all of them at once.

use std::time::Duration;

use super::ending::Ending;
use crate::lease::Moment;

/// The most pings and pongs per second, over a long time.
const PER_SECOND: u32 = 10;
/// The most at once.
const AT_ONCE: u32 = 60;

/// The pings and pongs of one stream.
#[derive(Debug, Default)]
pub struct Controls {
    /// When all that came would have come at the greatest pace.
    paid_until: Moment,
}

impl Controls {
    /// One more comes.
    ///
    /// # Errors
    /// The stream must end: there are too many.
    pub fn hear(&mut self, now: Moment) -> Result<(), Ending> {
        let interval = Duration::from_secs(1) / PER_SECOND;
        self.paid_until = self.paid_until.max(now) + interval;
        let ahead = self.paid_until.since(now);
        if ahead > interval * AT_ONCE { Err(Ending::Pings) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_each_tenth_of_a_second_is_always_served_and_a_flood_is_not() {
        let mut controls = Controls::default();
        let mut now = Moment(1);
        for _ in 0..1000 {
            now = now + Duration::from_millis(100);
            assert_eq!(controls.hear(now), Ok(()));
        }
        let came = (0..1000).take_while(|_| controls.hear(now).is_ok()).count();
        assert_eq!(came, AT_ONCE as usize - 1, "the last one of before counts");
        now = now + Duration::from_secs(60);
        assert!((0..AT_ONCE).all(|_| controls.hear(now).is_ok()), "they waited in the network");
        assert_eq!(controls.hear(now), Err(Ending::Pings));
    }
}
