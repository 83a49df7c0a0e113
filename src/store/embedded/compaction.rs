//! Keeps the log short, a little with every group. It carries the current frames out of the oldest segment,
//! then releases that segment.

use std::sync::Arc;

use super::{
    frame::{self, Kind, Stamp},
    index::Location,
    segment::{HEADER, Segment},
    writer::{Pending, Writer},
};
use crate::lease::Key;

/// How many bytes of the oldest segment are examined per byte written, when the log is slightly too long. If half
/// of the log is out of date, 2 frees as much as is written.
const PACE: u64 = 2;
/// The same when the log is a quarter too long.
const FAST_PACE: u64 = 4;
/// Compaction waits until this fraction of a segment is due, so that small reads do not delay small groups.
const STEPS_PER_SEGMENT: u64 = 128;

/// The progress of compaction.
#[derive(Debug, Default)]
pub(super) struct Compaction {
    /// The oldest segment, where its frames end, and how far it was examined.
    at: Option<(Arc<Segment>, u32, u32)>,
    /// How many bytes should have been examined by now.
    due: u64,
    draft: Vec<u8>,
    /// The oldest segment could not be read. It stays, and compaction waits until this many bytes were written.
    rests: u64,
}

impl Compaction {
    pub fn forget_segment(&mut self) {
        self.at = None;
    }
}

impl Writer {
    /// Adds carried frames to the group, as many as the group's own size calls for.
    pub fn compact(&mut self) {
        let written = self.group.bytes.len() as u64;
        self.compaction.rests = self.compaction.rests.saturating_sub(written);
        if self.compaction.rests > 0 {
            return;
        }
        let table = self.shared.table();
        let (sealed, live) = (table.sealed_bytes(), table.live_bytes());
        let oldest = table.oldest().map(|s| (Arc::clone(&s.segment), s.end));
        let segments = table.segments();
        drop(table);
        let most = self.shared.min_log_bytes.max(2 * live);
        if sealed <= most || segments < 2 {
            self.compaction.due = 0;
            return;
        }
        let pace = if sealed > most + most / 4 { FAST_PACE } else { PACE };
        self.compaction.due += self.group.bytes.len() as u64 * pace;
        let step = u64::from(self.shared.spares.segment_bytes) / STEPS_PER_SEGMENT;
        if self.compaction.due < step {
            return;
        }
        if self.compaction.at.is_none() {
            self.compaction.at = oldest.map(|(segment, end)| (segment, end, HEADER));
        }
        self.carry();
    }

    fn carry(&mut self) {
        let Some((segment, end, start)) = self.compaction.at.take() else { return };
        let mut draft = std::mem::take(&mut self.compaction.draft);
        let mut frames = segment.frames(start, end);
        let mut at = start;
        while at < end && u64::from(at - start) < self.compaction.due {
            let frame = match frames.next() {
                Ok(Some((_, frame))) => frame,
                // The segment was valid when it was written or recovered. It stays as it is: nothing is lost as
                // long as nothing is removed.
                Ok(None) | Err(_) => {
                    let segment = segment.id;
                    tracing::error!(segment, at, "cannot read a log segment; the log grows");
                    self.shared.counters.set_stuck(true);
                    // Try again when as much was written as a segment holds.
                    self.compaction.rests = u64::from(self.shared.spares.segment_bytes);
                    self.compaction.draft = draft;
                    return;
                }
            };
            if !matches!(frame.kind, Kind::Oldest | Kind::Forgotten)
                && self.is_current(frame.key, segment.id, at)
            {
                if frame::padded(frame.len) > self.room() {
                    break;
                }
                self.carry_frame(&frame, &mut draft);
            }
            at = frames.at();
        }
        self.compaction.due = self.compaction.due.saturating_sub(u64::from(at - start));
        self.shared.counters.set_stuck(false);
        if at >= end && self.append_oldest(segment.id + 1) {
            self.group.retires = true;
        }
        drop(frames);
        self.compaction.draft = draft;
        self.compaction.at = Some((segment, end, at));
    }

    fn is_current(&self, key: &str, segment: u64, offset: u32) -> bool {
        !self.group.revisions.contains_key(key)
            && self.shared.table().is_current(key, segment, offset)
    }

    fn carry_frame(&mut self, frame: &frame::Frame<'_>, draft: &mut Vec<u8>) {
        let (Some(()), Ok(key)) =
            (frame::draft_raw(draft, frame.key, frame.record), Key::stored(frame.key))
        else {
            return;
        };
        let stamp = Stamp {
            revision: frame.revision,
            at_ms: frame.at_ms,
            epoch: frame.epoch,
            kind: Kind::Carried,
            group_start: self.end,
        };
        let location: Location = self.append_stamped(draft, stamp);
        self.shared.counters.carried();
        self.group.pending.push(Pending { key, location, kind: Kind::Carried, write: None });
    }
}
