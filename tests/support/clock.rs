//! One clock for all that the test's clients believe, and waiting for what must come about.

use std::{future::Future, sync::LazyLock, time::Duration};

use tenure::{
    clock::{Clock, SystemClock},
    lease::Moment,
};

/// Longer than anything takes that comes about at all, in a debug build on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

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

/// Asks again until the answer is yes. Counts tokio's time, so that virtual time serves as well.
///
/// # Panics
/// When it does not become so within [`PATIENCE`].
pub async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !so().await {
            sleep_ms(10).await;
        }
    };
    if tokio::time::timeout(PATIENCE, asking).await.is_err() {
        panic!("waited {PATIENCE:?} in vain: {what}");
    }
}

/// Waits for the future.
///
/// # Panics
/// When it takes longer than [`PATIENCE`].
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {PATIENCE:?}"),
    }
}

/// Blocks the thread until it is so.
///
/// # Panics
/// When it does not become so within [`PATIENCE`].
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "a test's own thread may wait")]
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let end = now() + PATIENCE;
    while !so() {
        assert!(now() < end, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(ms(5));
    }
}
