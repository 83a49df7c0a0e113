//! A test sets the level of the program.

use crate::lease::Level;

/// The level that `TENURE_TEST_LEVEL` gives.
pub(super) fn level() -> Option<Level> {
    std::env::var("TENURE_TEST_LEVEL").ok()?.parse().ok().map(Level)
}
