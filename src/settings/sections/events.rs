//! `[events]`: the event stream.

use std::time::Duration;

use super::super::table::section;

/// The largest ring of live events. It is allocated at start, with about 200 bytes per place.
const MAX_BUFFER: usize = 1 << 22;
/// The API promises a comment line at least every 5 s.
const MAX_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

section! {
    /// The section `[events]`: the buffer and the comment lines of the event stream.
    pub struct Events {
        /// How many events a live subscriber may lag behind before it is disconnected. It can resume where it was.
        buffer: usize = 16_384, in 1..=MAX_BUFFER;
        /// How often a silent event stream sends a comment line.
        heartbeat_interval: Duration = Duration::from_secs(5),
            in Duration::from_millis(10)..=MAX_HEARTBEAT_INTERVAL;
    }
}
