//! A field of records that only programs of the second level know, so that tests see when it is written.

use super::level::Level;

/// The version of records that have it.
pub(super) const VERSION: u8 = 200;
/// The level of the programs that know it.
const KNOWN_FROM: Level = Level(2);

/// What a write says in a store of this level.
pub(super) fn of(level: Level) -> Option<Box<str>> {
    (level >= KNOWN_FROM).then(|| format!("written at level {level}").into())
}
