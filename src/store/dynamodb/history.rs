//! Past changes: from memory, or else from the log.

use std::ops::ControlFlow;

use super::{
    layout::Line, log::ReadEntry, position::end_of, shared::DynamoShared, state::committed,
};
use crate::{
    lease::{Revision, StoreError},
    store::{Committed, History, Position},
};

/// How many entries are read at a time.
const PAGE: i32 = 50;

impl DynamoShared {
    /// Changes after a position, at most `limit`. It returns none that the feed has not delivered yet.
    pub async fn history(&self, after: Position, limit: usize) -> Result<History, StoreError> {
        let (head, latest) = {
            let state = self.state();
            if after < state.earliest || after > state.latest {
                return Ok(History::Gap { resume: state.latest });
            }
            if let Some(history) = state.ring.after(after, limit) {
                return Ok(history);
            }
            (state.head, state.latest)
        };
        let mut found = Vec::new();
        // There is no entry 0.
        let mut from = match after.revision.0 {
            entry if after.index == u32::MAX => entry + 1,
            entry => entry.max(1),
        };
        let start = from;
        let done = self
            .walk(start, PAGE, |read| {
                if read.number > from {
                    // The entries were deleted meanwhile.
                    self.note_first(read.number);
                    let gap = History::Gap { resume: latest };
                    let changes = std::mem::take(&mut found);
                    let told = if changes.is_empty() { gap } else { History::Changes(changes) };
                    return ControlFlow::Break(told);
                }
                from = read.number + 1;
                if read.number > head {
                    return ControlFlow::Break(History::Changes(std::mem::take(&mut found)));
                }
                match add(read, after, limit, &mut found) {
                    Some(done) => ControlFlow::Break(done),
                    None => ControlFlow::Continue(()),
                }
            })
            .await?;
        Ok(done.unwrap_or(History::Changes(found)))
    }
}

/// Adds the changes of an entry. Returns the answer once it is complete.
fn add(
    read: ReadEntry,
    after: Position,
    limit: usize,
    found: &mut Vec<Committed>,
) -> Option<History> {
    let gap = |found: &mut Vec<Committed>, resume| {
        let changes = std::mem::take(found);
        Some(if changes.is_empty() { History::Gap { resume } } else { History::Changes(changes) })
    };
    let Ok(entry) = read.entry else { return gap(found, end_of(read.number)) };
    for (index, line) in entry.lines.iter().enumerate() {
        let position = Position { revision: Revision(read.number), index: index as u32 };
        if position <= after {
            continue;
        }
        match line {
            Line::Hole => return gap(found, position),
            Line::Change(key, noted) => found.push(committed(position, key, noted)),
        }
        if found.len() >= limit {
            return Some(History::Changes(std::mem::take(found)));
        }
    }
    None
}
