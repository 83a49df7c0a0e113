//! The one clock of a run: the machine's `CLOCK_BOOTTIME`, which all its processes share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let part = |part| u64::try_from(part).expect("after the start of the machine");
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Milliseconds as the clock counts.
pub const fn nanos(ms: u64) -> u64 {
    ms * 1_000_000
}

pub async fn sleep_ms(span: u64) {
    tokio::time::sleep(ms(span)).await;
}

/// Asks again until it is so; whether it came about in time.
pub async fn within(span: Duration, mut so: impl AsyncFnMut() -> bool) -> bool {
    let end = now() + u64::try_from(span.as_nanos()).expect("short");
    loop {
        if so().await {
            return true;
        }
        if now() > end {
            return false;
        }
        sleep_ms(50).await;
    }
}
