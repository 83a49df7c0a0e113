//! The latest changes in memory, so that resuming listeners cost no reads.

use std::{collections::VecDeque, sync::Arc};

use super::position::end_of;
use crate::store::{Committed, FeedBatch, History, Position};

/// How many changes are kept. They take some megabytes.
const MAX_CHANGES: usize = 16_384;

/// The batches of one entry.
#[derive(Debug)]
enum Part {
    Changes(Arc<[Committed]>),
    Gap(Position),
}

/// The latest changes, and the position after which there is no hole.
#[derive(Debug)]
pub(super) struct Ring {
    parts: VecDeque<(u64, Part)>,
    changes: usize,
    /// Everything after this position is in the ring.
    after: Position,
}

impl Default for Ring {
    fn default() -> Self {
        Self { parts: VecDeque::new(), changes: 0, after: end_of(0) }
    }
}

impl Ring {
    /// Starts again after an entry.
    pub fn reset(&mut self, head: u64) {
        *self = Self { after: end_of(head), ..Self::default() };
    }

    /// Adds the batches of an entry.
    pub fn push(&mut self, number: u64, batches: &[FeedBatch]) {
        for one in batches {
            let part = match one {
                FeedBatch::Changes(changes) => {
                    self.changes += changes.len();
                    Part::Changes(Arc::clone(changes))
                }
                FeedBatch::Gap { resume } => Part::Gap(*resume),
            };
            self.parts.push_back((number, part));
        }
        while self.changes > MAX_CHANGES
            && let Some((number, part)) = self.parts.pop_front()
        {
            let last = match part {
                Part::Changes(changes) => {
                    self.changes -= changes.len();
                    changes.last().map(|one| one.position)
                }
                Part::Gap(resume) => Some(resume),
            };
            let ends = self.parts.front().is_none_or(|(next, _)| *next > number);
            self.after = if ends { end_of(number) } else { last.unwrap_or(self.after) };
        }
    }

    /// The changes after a position; `None` if the ring does not reach back that far.
    pub fn after(&self, after: Position, limit: usize) -> Option<History> {
        if after < self.after {
            return None;
        }
        let mut found = Vec::new();
        let start = self.parts.partition_point(|(number, _)| *number < after.revision.0);
        for (_, part) in self.parts.iter().skip(start) {
            match part {
                Part::Gap(resume) if *resume > after => {
                    if found.is_empty() {
                        return Some(History::Gap { resume: *resume });
                    }
                    break;
                }
                Part::Gap(_) => {}
                Part::Changes(changes) => {
                    let rest = changes.iter().filter(|one| one.position > after);
                    found.extend(rest.take(limit - found.len()).cloned());
                }
            }
            if found.len() >= limit {
                break;
            }
        }
        Some(History::Changes(found))
    }
}
