//! Keeps the log short, a little with every group. It carries the current frames out of the oldest segment,
//! then releases that segment.

use std::sync::Arc;

use super::{
    frame::{self, Frame, FrameKind, Stamp},
    segment::{HEADER, Segment},
    tail::{Pending, Tail},
};
use crate::lease::Key;

/// How many bytes of the oldest segment are examined per byte written, when the log is slightly too long. If half
/// of the log is out of date, 2 frees as much as is written.
const PACE: u64 = 2;
/// The same when the log is a quarter too long.
const FAST_PACE: u64 = 4;
/// Compaction waits until this fraction of a segment is due, so that small reads do not delay small groups.
const STEPS_PER_SEGMENT: u64 = 128;

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

    /// Adds carried frames to the group, as many as the group's own size calls for.
    pub fn compact(&mut self, tail: &mut Tail) {
        let written = tail.group.bytes.len() as u64;
        self.rests = self.rests.saturating_sub(written);
        if self.rests > 0 {
            return;
        }
        let table = tail.shared.table();
        let (sealed, live) = (table.sealed_bytes(), table.live_bytes());
        let oldest = table.oldest().map(|s| (Arc::clone(&s.segment), s.end));
        let segments = table.segments();
        drop(table);
        let most = tail.shared.min_log_bytes.max(2 * live);
        if sealed <= most || segments < 2 {
            self.due = 0;
            return;
        }
        let pace = if sealed > most + most / 4 { FAST_PACE } else { PACE };
        self.due += tail.group.bytes.len() as u64 * pace;
        let step = u64::from(tail.shared.spares.segment_bytes) / STEPS_PER_SEGMENT;
        if self.due < step {
            return;
        }
        if self.at.is_none() {
            self.at = oldest.map(|(segment, end)| (segment, end, HEADER));
        }
        self.carry(tail);
    }

    fn carry(&mut self, tail: &mut Tail) {
        let Some((segment, end, start)) = self.at.take() else { return };
        let mut draft = std::mem::take(&mut self.draft);
        let mut frames = segment.frames(start, end);
        let mut at = start;
        while at < end && u64::from(at - start) < self.due {
            let frame = match frames.next() {
                Ok(Some((_, frame))) => frame,
                // The segment was valid when it was written or recovered. It stays as it is: nothing is lost as
                // long as nothing is removed.
                Ok(None) | Err(_) => {
                    let segment = segment.id;
                    tracing::error!(
                        segment,
                        at,
                        "cannot read a log segment; compaction pauses, and the log grows"
                    );
                    tail.shared.counters.set_stuck(true);
                    // Try again when as much was written as a segment holds.
                    self.rests = u64::from(tail.shared.spares.segment_bytes);
                    self.draft = draft;
                    return;
                }
            };
            if !matches!(frame.kind, FrameKind::Oldest | FrameKind::Forgotten)
                && is_current(tail, frame.key, segment.id, at)
            {
                if frame::padded(frame.len) > tail.room() {
                    break;
                }
                carry_frame(tail, &frame, &mut draft);
            }
            at = frames.at();
        }
        self.due = self.due.saturating_sub(u64::from(at - start));
        tail.shared.counters.set_stuck(false);
        if at >= end && tail.append_oldest(segment.id + 1) {
            tail.group.retires = true;
        }
        drop(frames);
        self.draft = draft;
        self.at = Some((segment, end, at));
    }
}

fn is_current(tail: &Tail, key: &str, segment: u64, offset: u32) -> bool {
    !tail.group.revisions.contains_key(key) && tail.shared.table().is_current(key, segment, offset)
}

fn carry_frame(tail: &mut Tail, frame: &Frame<'_>, draft: &mut Vec<u8>) {
    let (Some(()), Ok(key)) = (
        frame::draft_raw(draft, frame.key, frame.record, frame.condition()),
        Key::stored(frame.key),
    ) else {
        return;
    };
    let stamp = Stamp {
        revision: frame.revision,
        at_ms: frame.at_ms,
        epoch: frame.epoch,
        kind: FrameKind::Carried,
        group_start: tail.end,
    };
    let location = tail.append_stamped(draft, stamp);
    tail.shared.counters.carried();
    let kind = FrameKind::Carried;
    tail.group.pending.push(Pending { key, slot: None, location, kind, write: None });
}
