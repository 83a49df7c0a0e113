//! `[actors]`: supervision of the actors.

use std::time::Duration;

use super::super::{table::section, units::DAY};

section! {
    /// The section `[actors]`: how often an actor that failed is restarted.
    pub struct Actors {
        /// How many times the actor of one key is restarted at once within restart_window. After that the key rests for
        /// one window, and its callers are asked to retry.
        restart_intensity: u32 = 10;
        /// Period over which restarts are counted.
        restart_window: Duration = Duration::from_secs(10), in Duration::from_millis(10)..=DAY;
    }
}
