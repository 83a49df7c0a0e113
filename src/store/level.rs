//! The level of this program.

#[cfg(feature = "testing")]
#[path = "../../tests/doors/level.rs"]
mod door;

use crate::lease::{LEVEL, Level};

/// [`LEVEL`], unless a test sets another one.
pub(crate) fn own_level() -> Level {
    #[cfg(feature = "testing")]
    if let Some(level) = door::level() {
        return level;
    }
    LEVEL
}
