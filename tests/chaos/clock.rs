//! The one clock of a run, which all processes of the machine share.

pub use crate::support::clock::{ms, sleep_ms, within};

/// Now, in nanoseconds.
pub fn now() -> u64 {
    crate::support::clock::now().0
}

/// Milliseconds as the clock counts.
pub const fn nanos(ms: u64) -> u64 {
    ms * 1_000_000
}
