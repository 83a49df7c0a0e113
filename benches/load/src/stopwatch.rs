//! The tool's own stopwatch and nonce.
//!
//! Nothing here feeds a promise: the figures say how long an answer took, and no lease depends on
//! them. That is why this file reads `Instant::now`, which the product must not.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The moment now, on the clock that latencies are measured with.
#[expect(clippy::disallowed_methods, reason = "a load tool measures, it promises nothing")]
pub fn tick() -> Instant {
    Instant::now()
}

/// Blocks this thread for `pause`.
///
/// Used while a child process is being stopped, when nothing else runs in this process.
#[expect(clippy::disallowed_methods, reason = "no arbiter and no lease lives in the load tool")]
pub fn block_for(pause: Duration) {
    std::thread::sleep(pause);
}

/// A short text that differs from run to run, so that two runs never share a key.
pub fn nonce() -> String {
    let word = RandomState::new().hash_one(std::process::id());
    format!("{:08x}", word & 0xffff_ffff)
}

/// A prefix for the keys of one workload.
pub fn key_prefix() -> String {
    format!("bench/{}", nonce())
}

/// Whole microseconds of `span`, saturating.
pub fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// The processor time that this process has used so far, user and system.
pub fn own_cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // Both are small and never negative.
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}
