//! The end of the log: the newest segment, and the group of frames that the next sync makes durable there.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::oneshot;

use super::{
    super::Counts,
    frame::{self, FrameKind, Stamp, padded},
    index::{Location, Slot},
    options::WallClock,
    queue::Verdict,
    segment::Segment,
    shared::EmbeddedShared,
};
use crate::lease::{Change, Key, Revision};

/// A frame of the group. Once the group is durable, it is the current frame of its key.
#[derive(Debug)]
pub(super) struct Pending {
    pub key: Key,
    /// The key's slot in the index, if it had one.
    pub slot: Option<Slot>,
    pub location: Location,
    pub kind: FrameKind,
    /// The changes of the write and the channel to its caller; `None` for a carried frame.
    pub write: Option<(Vec<Change>, oneshot::Sender<Verdict>)>,
}

/// What the next sync makes durable.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub bytes: Vec<u8>,
    pub pending: Vec<Pending>,
    /// The future revisions of the keys that the group writes.
    pub revisions: HashMap<Key, Revision>,
    /// The callers of writes that expected another revision.
    pub conflicts: Vec<oneshot::Sender<Verdict>>,
    pub new_keys: Counts,
    pub writes: usize,
    pub at_ms: u64,
    /// The oldest segment is no longer needed once the group is durable.
    pub retires: bool,
}

/// Where the log goes on.
pub(super) struct Tail {
    pub shared: Arc<EmbeddedShared>,
    clock: WallClock,
    /// The segment that is being written; `None` until the first write of a new store.
    pub active: Option<Arc<Segment>>,
    /// Where the group goes in the segment.
    pub end: u32,
    pub next_revision: Revision,
    pub group: Group,
}

impl Tail {
    pub fn new(shared: Arc<EmbeddedShared>, clock: WallClock, next_revision: Revision) -> Self {
        let (active, end) = shared.active();
        Self { shared, clock, active, end, next_revision, group: Group::default() }
    }

    /// The room that is left in the active segment.
    pub fn room(&self) -> u32 {
        let bytes = self.active.as_ref().map_or(0, |s| s.bytes);
        // A group never exceeds its segment.
        bytes.saturating_sub(self.end + self.group.bytes.len() as u32)
    }

    /// Adds a draft to the group under a new stamp.
    pub fn append(&mut self, draft: &[u8], revision: Revision, kind: FrameKind) -> Location {
        if self.group.bytes.is_empty() {
            self.group.at_ms = (self.clock)();
        }
        let stamp = Stamp {
            revision,
            at_ms: self.group.at_ms,
            epoch: self.shared.meta.epoch,
            kind,
            group_start: self.end,
        };
        self.append_stamped(draft, stamp)
    }

    /// Adds a copy of a draft to the group under the given stamp.
    pub fn append_stamped(&mut self, draft: &[u8], stamp: Stamp) -> Location {
        let (id, seed) = self.active.as_ref().map_or((0, 0), |s| (s.id, s.seed));
        let bytes = &mut self.group.bytes;
        let at = bytes.len();
        bytes.extend_from_slice(draft);
        frame::seal(&mut bytes[at..], seed, stamp);
        bytes.resize(at + padded(draft.len() as u32) as usize, 0);
        let condition = frame::condition_of(draft);
        Location::new(stamp.revision, id, self.end + at as u32, draft.len() as u32, condition)
    }

    /// Adds "the oldest segment is `id`" to the group, if it fits.
    pub fn append_oldest(&mut self, id: u64) -> bool {
        let mut draft = Vec::new();
        let drafted = frame::draft_raw(&mut draft, "", &id.to_le_bytes(), None);
        let fits = padded(draft.len() as u32) <= self.room();
        if drafted.is_none() || !fits {
            return false;
        }
        let last = Revision(self.next_revision.0 - 1);
        self.append(&draft, last, FrameKind::Oldest);
        true
    }
}
