//! The level: what every program on a store can read (docs/upgrades.md).
//!
//! Guarantees: a field is written only where every node that may read it knows it, and a store in which it may have been
//! written is opened by no program that does not.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The level of this program: it reads and writes what programs of this level and of lower ones do. It rises by one with
/// a release that adds to what is stored.
pub const LEVEL: Level = Level(1);
/// The lowest level of a store that this program opens, and so of the nodes beside which it works.
const LEAST: Level = Level::FIRST;

/// What a program can read and write, or what all programs on a store can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u8);

/// Why a program must not open a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// Some records may say what the program does not understand.
    #[error(
        "the store has level {store}, and this program knows levels up to {program}: a later version of tenure serves \
         it or served it. Start that version or a later one; to go back, restore a backup from before the upgrade"
    )]
    TooOld {
        /// The level of the store.
        store: Level,
        /// The level of the program.
        program: Level,
    },
    /// Nodes of a version that the program does not work beside may serve the store.
    #[error(
        "the store has level {store}, and this program works from level {least} on: let a version of tenure between \
         the two serve the store first"
    )]
    TooNew {
        /// The level of the store.
        store: Level,
        /// The lowest level that the program works with.
        least: Level,
    },
}

impl Level {
    /// The level of programs that say nothing of levels.
    pub const FIRST: Self = Self(1);

    /// Whether programs that say nothing of levels know it.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }

    /// Whether a program of this level may open a store that has the level `store`.
    ///
    /// # Errors
    /// [`LevelError`], which names both.
    pub fn opens(self, store: Self) -> Result<(), LevelError> {
        if store > self {
            return Err(LevelError::TooOld { store, program: self });
        }
        if store < LEAST {
            return Err(LevelError::TooNew { store, least: LEAST });
        }
        Ok(())
    }
}

impl Default for Level {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_opens_stores_up_to_its_own_level() {
        assert_eq!(LEVEL.opens(Level::FIRST), Ok(()));
        assert_eq!(LEVEL.opens(LEVEL), Ok(()));
        let later = Level(LEVEL.0 + 1);
        let refused = LEVEL.opens(later).unwrap_err();
        assert_eq!(refused, LevelError::TooOld { store: later, program: LEVEL });
        assert!(later.opens(LEVEL).is_ok(), "one level back is always opened");
        let said = LevelError::TooNew { store: Level(1), least: Level(2) }.to_string();
        assert!(said.contains("level 1") && said.contains("level 2"), "{said}");
    }
}
