//! Reads of one key, of a range of keys, and of the history. They run on the caller's thread and are complete
//! when they return. The lock is held for look-ups only, never for disk access.

use std::{io, sync::Arc};

use super::{
    super::{Committed, Counted, Found, History, Position, Range, StoreError},
    EmbeddedShared,
    frame::{self, Frame, FrameKind},
    index::Location,
    segment::Segment,
    table::{Following, Part},
};
use crate::lease::{CodecError, Key, Nonce, Record, Token};

/// A scan looks up this many keys at a time, so that it never keeps the index from the writer for long.
const SCAN_CHUNK: usize = 512;

impl EmbeddedShared {
    pub(super) fn read(&self, key: &str) -> Result<Option<Found>, StoreError> {
        let table = self.table();
        let Some(location) = table.index.get(key) else { return Ok(None) };
        let segment = table.segment_of(location);
        drop(table);
        self.load(key, location, segment.as_deref()).map(Some)
    }

    fn load(
        &self,
        key: &str,
        location: Location,
        segment: Option<&Segment>,
    ) -> Result<Found, StoreError> {
        let Some(segment) = segment else {
            let why = format!("the index names a missing segment for {key:?}");
            return Err(StoreError::Unavailable(why));
        };
        let bytes = segment.read(location.offset(), location.len()).map_err(|e| unreadable(&e))?;
        let sound = frame::parse(&bytes, segment.seed)
            .filter(|f| f.key == key && f.revision == location.revision());
        // Corruption on the disk affects only this key: an unknown owner holds it.
        let record = sound.map_or(Err(CodecError::Checksum), |f| self.decode(&f)).map(Arc::new);
        Ok(Found { revision: location.revision(), record })
    }

    fn decode(&self, frame: &Frame<'_>) -> Result<Record, CodecError> {
        let mut record = Record::decode(frame.record)?;
        // A token of an earlier epoch keeps its value when the epoch is raised.
        if frame.epoch != self.meta.epoch
            && let Some(tenure) = &mut record.tenure
            && tenure.token == Token::OF_THIS_WRITE
        {
            tenure.token = Token::of(frame.epoch, frame.revision);
        }
        Ok(record)
    }

    pub(super) fn scan(&self, range: &Range) -> Result<Vec<(Key, Found)>, StoreError> {
        let mut found: Vec<(Key, Found)> = Vec::new();
        let mut from = range.prefix.clone();
        let mut exclusive = false;
        if let Some(after) = range.after.as_ref().filter(|a| **a >= from) {
            (from, exclusive) = (after.clone(), true);
        }
        while found.len() < range.limit {
            let want = SCAN_CHUNK.min(range.limit - found.len());
            let chunk = self.look_up(&range.prefix, &from, exclusive, want);
            let last = chunk.len() < want;
            for (key, location, segment) in chunk {
                let record = self.load(key.as_str(), location, segment.as_deref())?;
                found.push((key, record));
            }
            match found.last() {
                Some((key, _)) if !last => (from, exclusive) = (key.as_str().to_owned(), true),
                _ => break,
            }
        }
        Ok(found)
    }

    /// How many keys are in each state, and up to `most` keys whose fences failed.
    pub(super) fn census(&self, most: usize) -> Counted {
        let table = self.table();
        let states = table.census().states();
        let (failed, more_failed) = table.census().failed(most);
        drop(table);
        let when = |key: Key| {
            let found = self.read(key.as_str()).ok().flatten();
            let ended = found.and_then(|found| found.record.ok()?.ended_at_ms());
            (key, ended)
        };
        Counted { states, failed: failed.into_iter().map(when).collect(), more_failed }
    }

    /// The last keys that start with `prefix` and sort before `before`, in descending order.
    pub(super) fn keys_before(&self, prefix: &str, before: Option<&str>, limit: usize) -> Vec<Key> {
        let mut keys = Vec::new();
        self.table().index.visit_before(before, |key| {
            let wanted = key.as_str().starts_with(prefix) && keys.len() < limit;
            if wanted {
                keys.push(key.clone());
            }
            wanted
        });
        keys
    }

    fn look_up(
        &self,
        prefix: &str,
        from: &str,
        exclusive: bool,
        want: usize,
    ) -> Vec<(Key, Location, Option<Arc<Segment>>)> {
        let mut chunk = Vec::with_capacity(want);
        let table = self.table();
        table.index.visit_from(from, exclusive, |key, location| {
            let wanted = key.as_str().starts_with(prefix);
            if wanted {
                chunk.push((key.clone(), location, table.segment_of(location)));
            }
            wanted && chunk.len() < want
        });
        chunk
    }

    pub(super) fn history(&self, after: Position, limit: usize) -> Result<History, StoreError> {
        loop {
            let table = self.table();
            let latest = self.latest();
            if after < table.forgotten() || after > latest {
                return Ok(History::Gap { resume: latest });
            }
            let first = if after == latest { None } else { table.part_after(after) };
            drop(table);
            let Some(first) = first else { return Ok(History::Changes(Vec::new())) };
            if let Some(changes) = self.read_from(first, after, limit)? {
                return Ok(History::Changes(changes));
            }
        }
    }

    /// The changes from a part on; `None` if compaction overtook the reader before it had read any.
    fn read_from(
        &self,
        mut part: Part,
        after: Position,
        limit: usize,
    ) -> Result<Option<Vec<Committed>>, StoreError> {
        let mut changes = Vec::new();
        while self.read_part(&part, after, limit, &mut changes)? {
            let following = self.table().part_following(&part);
            match following {
                Following::Part(next) => part = next,
                Following::Nothing => break,
                // The changes found so far have no hole. The next call tells whether one follows.
                Following::Forgotten => return Ok((!changes.is_empty()).then_some(changes)),
            }
        }
        Ok(Some(changes))
    }

    /// Adds the changes of a segment. Returns `false` once there are enough.
    fn read_part(
        &self,
        part: &Part,
        after: Position,
        limit: usize,
        changes: &mut Vec<Committed>,
    ) -> Result<bool, StoreError> {
        let mut frames = part.segment.frames(part.start, part.end);
        while let Some((_, frame)) = frames.next().map_err(|e| unreadable(&e))? {
            if frame.kind != FrameKind::Write || frame.revision < after.revision {
                continue;
            }
            self.add_changes(&frame, after, changes)?;
            if changes.len() >= limit {
                changes.truncate(limit);
                return Ok(false);
            }
        }
        if frames.at() < part.end {
            let why = format!("log segment {:x} is damaged at {}", part.segment.id, frames.at());
            return Err(StoreError::Unavailable(why));
        }
        Ok(true)
    }

    fn add_changes(
        &self,
        frame: &Frame<'_>,
        after: Position,
        changes: &mut Vec<Committed>,
    ) -> Result<(), StoreError> {
        let bad =
            || StoreError::Unavailable(format!("changes of {:?} are malformed", frame.revision));
        let of_frame = frame.changes().ok_or_else(bad)?;
        if of_frame.is_empty() {
            return Ok(());
        }
        let key = Key::stored(frame.key).map_err(|_| bad())?;
        for (index, mut change) in of_frame.into_iter().enumerate() {
            let index = u8::try_from(index).unwrap_or(u8::MAX);
            let position = Position { revision: frame.revision, index: u32::from(index) };
            if position > after {
                change.resolve(frame.epoch, frame.revision);
                let (node, at_ms) = (Nonce::default(), frame.at_ms);
                changes.push(Committed { position, key: key.clone(), node, change, at_ms });
            }
        }
        Ok(())
    }
}

fn unreadable(error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("the log cannot be read: {error}"))
}
