//! Changes that are past: from memory, else from the log.

use super::{
    layout::Line,
    log::ReadEntry,
    shared::Shared,
    state::{committed, end_of},
};
use crate::{
    lease::{Revision, StoreError},
    store::{Committed, History, Position},
};

/// Entries read at a time.
const PAGE: i32 = 50;

impl Shared {
    /// Changes after a position, at most `limit`, and none that the feed did not bring yet.
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
        loop {
            let page = self.read_entries(from, true, PAGE).await?;
            let Some(first) = page.first() else { break };
            if first.number > from && from > 0 {
                // Thrown away meanwhile.
                self.note_first(first.number);
                let gap = History::Gap { resume: latest };
                return Ok(if found.is_empty() { gap } else { History::Changes(found) });
            }
            for read in page {
                from = read.number + 1;
                if read.number > head {
                    return Ok(History::Changes(found));
                }
                if let Some(done) = add(read, after, limit, &mut found) {
                    return Ok(done);
                }
            }
        }
        Ok(History::Changes(found))
    }
}

/// Adds the changes of an entry; the answer, when it is complete.
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
