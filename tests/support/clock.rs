//! One clock for all that the test's clients believe.

use std::{sync::LazyLock, time::Duration};

use tenure::{
    clock::{Clock, SystemClock},
    lease::Moment,
};

static CLOCK: LazyLock<SystemClock> = LazyLock::new(SystemClock::new);

pub fn now() -> Moment {
    CLOCK.now()
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub async fn sleep_ms(span: u64) {
    tokio::time::sleep(ms(span)).await;
}

/// Asks again until it is so; whether it came about in time.
pub async fn within(span: Duration, mut so: impl AsyncFnMut() -> bool) -> bool {
    let end = now() + span;
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
