//! The durable state in memory: the index, and the segments that it points into.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{
    super::{Counts, Position, StoreError, census::Census, quotas::Quotas},
    index::{Index, Location, Slot},
    segment::{HEADER, Header, Segment},
};
use crate::lease::{Key, Policies, Revision};

/// A [`Mark`] is made at most once per this many bytes.
const MARK_EVERY: u32 = 64 * 1024;

/// "The first write from `offset` on has this revision": a place where reading the history may start.
#[derive(Clone, Copy, Debug)]
struct Mark {
    revision: Revision,
    offset: u32,
}

/// A segment of the log.
#[derive(Debug)]
pub(super) struct IndexSlot {
    pub segment: Arc<Segment>,
    /// Where its durable frames end.
    pub end: u32,
    /// The last change before the segment.
    pub before: Position,
    marks: Vec<Mark>,
}

impl IndexSlot {
    pub fn new(segment: Arc<Segment>, header: &Header) -> Self {
        Self { segment, end: HEADER, before: header.before, marks: Vec::new() }
    }

    /// Records a write at `offset`.
    pub fn mark(&mut self, revision: Revision, offset: u32) {
        if self.marks.last().is_none_or(|m| offset - m.offset >= MARK_EVERY) {
            self.marks.push(Mark { revision, offset });
        }
    }

    /// The offset from which the writes of `revision` and later ones are found.
    fn start_for(&self, revision: Revision) -> u32 {
        let later = self.marks.partition_point(|m| m.revision <= revision);
        later.checked_sub(1).map_or(HEADER, |at| self.marks[at].offset)
    }
}

/// A part of a segment, to be read without the lock. It stays unchanged as long as the segment's handle is held,
/// because a segment with a holder is never reused.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub segment: Arc<Segment>,
    pub start: u32,
    pub end: u32,
}

/// What follows a part of the log.
#[derive(Debug)]
pub(super) enum Following {
    Part(Part),
    /// The part was the end of the log.
    Nothing,
    /// The log no longer keeps the part's segment, and perhaps later ones.
    Forgotten,
}

/// The index and the segments.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub index: Index,
    /// How many keys of the index are sessions.
    sessions: u64,
    /// Oldest first. Their ids have no gaps. The last one is being written.
    slots: VecDeque<IndexSlot>,
    live_bytes: u64,
    file_bytes: u64,
    quotas: Quotas,
    census: Census,
}

impl Table {
    pub fn census(&self) -> &Census {
        &self.census
    }

    /// How many keys have a record, and how many of them are sessions.
    pub fn counts(&self) -> Counts {
        Counts { keys: self.index.len() as u64 - self.sessions, sessions: self.sessions }
    }

    /// The bytes of the current frames.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The bytes of the segment files that hold the log.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The bytes of the segment files that are no longer written.
    pub fn sealed_bytes(&self) -> u64 {
        self.file_bytes - self.slots.back().map_or(0, |s| u64::from(s.segment.bytes))
    }

    pub fn segments(&self) -> usize {
        self.slots.len()
    }

    pub fn oldest(&self) -> Option<&IndexSlot> {
        self.slots.front()
    }

    pub fn newest(&mut self) -> Option<&mut IndexSlot> {
        self.slots.back_mut()
    }

    /// Adds the segment that is written from now on.
    pub fn push(&mut self, slot: IndexSlot) {
        self.file_bytes += u64::from(slot.segment.bytes);
        self.slots.push_back(slot);
    }

    /// Removes the oldest segment. The caller has carried its current frames over.
    pub fn retire_oldest(&mut self) -> Option<Arc<Segment>> {
        let slot = self.slots.pop_front()?;
        self.file_bytes -= u64::from(slot.segment.bytes);
        Some(slot.segment)
    }

    /// A frame became the current one of its key, which had this slot in the index.
    pub fn set(&mut self, key: &Key, slot: Option<Slot>, location: Location) {
        let before = match slot {
            Some(slot) => self.index.insert_at(slot, key, location),
            None => self.index.insert(key, location),
        };
        if before.is_none() {
            self.sessions += u64::from(key.is_session());
            self.quotas.added(key);
        }
        self.census.change(key, before.map(Location::condition), Some(location.condition()));
        self.live_bytes += location.footprint();
        self.live_bytes -= before.map_or(0, Location::footprint);
    }

    /// A key no longer has a record.
    pub fn remove(&mut self, key: &Key) {
        let before = self.index.remove(key.as_str());
        if let Some(before) = before {
            self.census.change(key, Some(before.condition()), None);
            self.sessions -= u64::from(key.is_session());
            self.quotas.removed(key);
        }
        self.live_bytes -= before.map_or(0, Location::footprint);
    }

    /// From now on, these policies limit the number of keys.
    pub fn bound_keys(&mut self, policies: &Arc<Policies>) {
        let index = &self.index;
        self.quotas.set(policies, |prefix, each| {
            index.visit_from(prefix, false, |key, _| {
                let within = key.as_str().starts_with(prefix);
                if within {
                    each(key);
                }
                within
            });
        });
    }

    /// Whether a policy limits the number of keys like this one.
    pub fn bounds(&self, key: &Key) -> bool {
        self.quotas.bounds(key)
    }

    /// Admits a key without a record, if its policy has room for it.
    pub fn admit(&mut self, key: &Key) -> Result<(), StoreError> {
        self.quotas.admit(key)
    }

    /// A key that was admitted does not get a record.
    pub fn dismiss(&mut self, key: &Key) {
        self.quotas.settle(key);
    }

    /// Takes over what recovery found.
    pub fn load(&mut self, current: HashMap<Key, Location>) {
        self.live_bytes = current.values().map(|l| l.footprint()).sum();
        self.sessions = current.keys().filter(|key| key.is_session()).count() as u64;
        for (key, location) in &current {
            self.census.change(key, None, Some(location.condition()));
        }
        self.index = Index::from_map(current);
    }

    /// A group became durable in the newest segment.
    pub fn extend_newest(&mut self, end: u32) {
        if let Some(slot) = self.slots.back_mut() {
            slot.end = end;
        }
    }

    /// The segment of a location in the index.
    pub fn segment_of(&self, location: Location) -> Option<Arc<Segment>> {
        let oldest = self.slots.front()?.segment.id;
        Some(Arc::clone(&self.slots.get(location.segments_after(oldest))?.segment))
    }

    /// Whether the frame at `offset` of `segment` is its key's current one.
    pub fn is_current(&self, key: &str, segment: u64, offset: u32) -> bool {
        let (Some(location), Some(oldest)) = (self.index.get(key), self.slots.front()) else {
            return false;
        };
        let distance = segment.checked_sub(oldest.segment.id);
        location.offset() == offset
            && distance.is_some_and(|d| d == location.segments_after(oldest.segment.id) as u64)
    }

    /// The last change that is no longer kept.
    pub fn forgotten(&self) -> Position {
        self.slots.front().map_or(Position::default(), |s| s.before)
    }

    /// Where the changes after `after` begin; `None` if the log has none.
    pub fn part_after(&self, after: Position) -> Option<Part> {
        let at = self.slots.partition_point(|s| s.before <= after).saturating_sub(1);
        let slot = self.slots.get(at)?;
        let start = slot.start_for(after.revision);
        Some(Part { segment: Arc::clone(&slot.segment), start, end: slot.end })
    }

    /// What follows a part that was read: what its segment has gained since, or the next segment.
    pub fn part_following(&self, part: &Part) -> Following {
        let oldest = self.slots.front().map_or(u64::MAX, |s| s.segment.id);
        let Some(at) = part.segment.id.checked_sub(oldest) else { return Following::Forgotten };
        // Ids have no gaps, and the number of segments fits into a usize.
        let at = at as usize;
        let rest = self.slots.get(at).filter(|s| s.end > part.end).map(|s| (s, part.end));
        match rest.or_else(|| self.slots.get(at + 1).map(|s| (s, HEADER))) {
            Some((slot, start)) => {
                let segment = Arc::clone(&slot.segment);
                Following::Part(Part { segment, start, end: slot.end })
            }
            None => Following::Nothing,
        }
    }
}
