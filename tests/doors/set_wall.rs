//! Tests set the wall clock of one process, which the machine's other processes do not see.
//!
//! `TENURE_TEST_WALL_OFFSET` names a file with an offset in milliseconds; a thread reads it twenty times a
//! second. Only with the feature `testing`. A library that is loaded before the program's own could not do
//! it: the clock is read through the vDSO.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

const EVERY: Duration = Duration::from_millis(50);

static OFFSET_MS: AtomicI64 = AtomicI64::new(0);

/// Whether there is such a file; the first to ask starts the thread.
static WATCHED: LazyLock<bool> = LazyLock::new(|| {
    let Some(path) = std::env::var_os("TENURE_TEST_WALL_OFFSET") else { return false };
    let look = move || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Ok(offset_ms) = text.trim().parse() {
            OFFSET_MS.store(offset_ms, Ordering::Relaxed);
        }
    };
    look();
    #[expect(clippy::disallowed_methods, reason = "a thread of its own, in tests alone")]
    let watch = move || {
        loop {
            std::thread::sleep(EVERY);
            look();
        }
    };
    std::thread::Builder::new().name("wall-offset".to_owned()).spawn(watch).is_ok()
});

/// What the wall clock reads after a test has set it.
pub(super) fn moved(wall_ms: u64) -> u64 {
    if !*WATCHED {
        return wall_ms;
    }
    wall_ms.saturating_add_signed(OFFSET_MS.load(Ordering::Relaxed))
}
