//! Positions in the log: the number of an entry, and the index of a change in it.

use crate::{lease::Revision, store::Position};

/// The position after every change of an entry.
pub(super) fn end_of(entry: u64) -> Position {
    // There is no entry 0, and the beginning of all history is one position.
    let index = if entry == 0 { 0 } else { u32::MAX };
    Position { revision: Revision(entry), index }
}

pub(super) fn before(position: Position) -> Position {
    match position.index {
        0 => end_of(position.revision.0.saturating_sub(1)),
        index => Position { index: index - 1, ..position },
    }
}
