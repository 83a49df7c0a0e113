//! The only thread that writes. It judges, appends and syncs writes, and only then answers the callers.

use std::{io, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    super::{Committed, Counts, FeedBatch, Position, StoreError, WriteOutcome},
    compaction::Compaction,
    frame::{FrameKind, padded},
    mark::{Durable, Mark},
    queue::{Job, Verdict},
    segment::{HEADER, Header, Segment},
    shared::EmbeddedShared,
    table::IndexSlot,
    tail::{Group, Pending, Tail},
};
use crate::lease::{Nonce, Revision};

/// How soon a write that found no room is tried again.
const ROOM_RETRY: Duration = Duration::from_millis(200);
/// The highest number of writes that one sync makes durable.
const MAX_GROUP: usize = 4096;
/// A group is closed once it has this many bytes.
const MAX_GROUP_BYTES: usize = 1 << 20;

pub(super) struct Writer {
    tail: Tail,
    compaction: Compaction,
    /// Set once and never cleared.
    pub failed: Option<StoreError>,
    /// Up to where the log is durable.
    mark: Mark,
}

impl Writer {
    pub fn new(tail: Tail, mark: Mark) -> Self {
        Self { tail, compaction: Compaction::default(), failed: None, mark }
    }

    /// Runs until the queue is closed and empty.
    pub fn run(mut self) {
        // If this thread panics, its waiting callers still get an answer.
        let last_words = LastWords(Arc::clone(&self.tail.shared));
        let mut jobs = Vec::new();
        while self.tail.shared.queue.take(&mut jobs) {
            self.work_off(&mut jobs);
        }
        self.finish();
        drop(last_words);
    }

    /// Settles the writes that came in.
    pub fn work_off(&mut self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            self.judge(job);
            let group = &self.tail.group;
            if group.pending.len() >= MAX_GROUP || group.bytes.len() >= MAX_GROUP_BYTES {
                self.commit();
            }
        }
        self.commit();
    }

    /// Adds a write to the group, or answers it at once.
    fn judge(&mut self, job: Job) {
        if let Some(why) = &self.failed {
            return refuse(job.reply, why.clone());
        }
        let found = self.tail.shared.table().index.find(job.key.as_str());
        let known = match self.tail.group.revisions.get(&job.key) {
            Some(revision) => Some(*revision),
            None => found.map(|(_, location)| location.revision()),
        };
        if known.unwrap_or(Revision::ABSENT) != job.expected {
            self.tail.group.conflicts.push(job.reply);
            return;
        }
        let known = known.filter(|revision| *revision != Revision::ABSENT);
        let counts = self.tail.shared.counts() + self.tail.group.new_keys;
        if known.is_none() && counts.of(&job.key) >= self.tail.shared.max_keys {
            let why = StoreError::too_many(&job.key, self.tail.shared.max_keys);
            return refuse(job.reply, why);
        }
        let bounded = known.is_none() && self.tail.shared.table().bounds(&job.key);
        if bounded && let Err(why) = self.tail.shared.table_mut().admit(&job.key) {
            return refuse(job.reply, why);
        }
        // A draft is always shorter than 4 GiB.
        if let Err(why) = self.make_room(job.draft.len() as u32) {
            if bounded {
                self.tail.shared.table_mut().dismiss(&job.key);
            }
            return refuse(job.reply, why);
        }
        if known.is_none() {
            self.tail.group.new_keys = self.tail.group.new_keys + Counts::one(&job.key);
        }
        self.tail.group.writes += 1;
        let revision = self.tail.next_revision;
        self.tail.next_revision = Revision(revision.0 + 1);
        let kind = job.kind;
        let location = self.tail.append(&job.draft, revision, kind);
        let there = if kind == FrameKind::Forgotten { Revision::ABSENT } else { revision };
        self.tail.group.revisions.insert(job.key.clone(), there);
        let write = Some((job.changes, job.reply));
        let slot = found.map(|(slot, _)| slot);
        self.tail.group.pending.push(Pending { key: job.key, slot, location, kind, write });
    }

    /// Makes sure that a frame of `len` bytes fits after the group.
    fn make_room(&mut self, len: u32) -> Result<(), StoreError> {
        let most = self.tail.shared.spares.segment_bytes - HEADER;
        if padded(len) > most {
            let why = format!("a record of {len} bytes does not fit into a log segment of {most}");
            return Err(StoreError::Unavailable(why));
        }
        if padded(len) <= self.tail.room() {
            return Ok(());
        }
        // No group spans two segments: recovery relies on it.
        self.commit();
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        if padded(len) <= self.tail.room() { Ok(()) } else { self.roll() }
    }

    /// Makes the group durable, then publishes it.
    pub fn commit(&mut self) {
        if !self.tail.group.bytes.is_empty() {
            self.compaction.compact(&mut self.tail);
            if let Err(error) = self.write_and_sync() {
                return self.fail(&error);
            }
            self.publish();
        }
        for reply in self.tail.group.conflicts.drain(..) {
            answer(reply, Verdict::Conflict);
        }
    }

    fn write_and_sync(&mut self) -> io::Result<()> {
        let Some(segment) = &self.tail.active else { return Ok(()) };
        let disk = &self.tail.shared.spares.disk;
        self.tail.shared.begin_write();
        let written = self.write_where_room_is(segment, &self.tail.group.bytes, self.tail.end);
        let observer = self.tail.shared.observer.as_deref();
        let began = observer.map(|o| o.nanos());
        let synced = written.and_then(|()| disk.sync(segment.id, &segment.file));
        self.tail.shared.end_write();
        synced?;
        if let (Some(observer), Some(began)) = (observer, began) {
            let took = Duration::from_nanos(observer.nanos().saturating_sub(began));
            observer.synced(self.tail.group.writes, took);
        }
        // A group never exceeds its segment.
        self.tail.end += self.tail.group.bytes.len() as u32;
        self.mark.set(Durable { segment: segment.id, end: self.tail.end }, &**disk);
        Ok(())
    }

    /// Writes the group, and waits for room. A copy-on-write file system needs room even for a write in place. On
    /// a full disk, the same bytes are written again at the same place until there is room, or until the store is
    /// closed.
    fn write_where_room_is(&self, segment: &Segment, bytes: &[u8], at: u32) -> io::Result<()> {
        let disk = &self.tail.shared.spares.disk;
        let mut said = false;
        loop {
            let written = disk.write(segment.id, &segment.file, bytes, at);
            let full = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            };
            match written {
                Err(error) if full(&error) && self.tail.shared.queue.closed().is_none() => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::error!(%error, "the disk has no room for a write; it is repeated");
                    }
                    self.tail.shared.queue.pause(ROOM_RETRY);
                }
                written => return written,
            }
        }
    }

    /// Publishes a durable group to readers, listeners and callers.
    fn publish(&mut self) {
        let retired = self.apply();
        let listened = self.tail.shared.feed.receiver_count() > 0;
        let mut news = Vec::new();
        let mut replies = Vec::with_capacity(self.tail.group.pending.len());
        let (at_ms, epoch) = (self.tail.group.at_ms, self.tail.shared.meta.epoch);
        for Pending { key, location, write, .. } in self.tail.group.pending.drain(..) {
            let Some((changes, reply)) = write else { continue };
            let revision = location.revision();
            replies.push((reply, revision));
            for (index, mut change) in changes.into_iter().enumerate() {
                let position = Position { revision, index: u32::from(index_of(index)) };
                if listened {
                    change.resolve(epoch, revision);
                    let node = Nonce::default();
                    news.push(Committed { position, key: key.clone(), node, change, at_ms });
                }
            }
        }
        self.tail.shared.counters.committed(self.tail.group.writes);
        if !news.is_empty() {
            // An error only means that there are no listeners.
            let _ = self.tail.shared.feed.send(FeedBatch::Changes(news.into()));
        }
        for (reply, revision) in replies {
            answer(reply, Verdict::Settled(WriteOutcome::Committed(revision)));
        }
        if let Some(segment) = retired {
            self.tail.shared.spares.retire(segment);
        }
        self.tail.group.bytes.clear();
        self.tail.group.revisions.clear();
        self.tail.group.new_keys = Counts::default();
        self.tail.group.writes = 0;
    }

    /// Brings the table up to date. Returns the segment that is no longer needed.
    fn apply(&mut self) -> Option<Arc<Segment>> {
        let mut table = self.tail.shared.table_mut();
        for Pending { key, slot, location, kind, write } in &self.tail.group.pending {
            match kind {
                FrameKind::Forgotten => table.remove(key),
                _ => table.set(key, *slot, *location),
            }
            let Some((changes, _)) = write else { continue };
            let revision = location.revision();
            if let Some(slot) = table.newest() {
                slot.mark(revision, location.offset());
            }
            if let Some(last) = changes.len().checked_sub(1) {
                // Under the lock, so that nobody reads a change of a history that has not begun yet.
                self.tail
                    .shared
                    .set_latest(Position { revision, index: u32::from(index_of(last)) });
            }
        }
        table.extend_newest(self.tail.end);
        self.tail.shared.note_sizes(&table);
        let retires = std::mem::take(&mut self.tail.group.retires);
        let retired = retires.then(|| table.retire_oldest()).flatten();
        drop(table);
        if retires {
            self.compaction.forget_segment();
        }
        retired
    }

    /// Continues in a new segment. The group must be empty.
    fn roll(&mut self) -> Result<(), StoreError> {
        let spare = self.tail.shared.spares.take()?;
        let segment_bytes = self.tail.shared.spares.segment_bytes;
        let log_id = self.tail.shared.log_id;
        let segment = Arc::new(Segment::new(spare.id, log_id, spare.file, segment_bytes));
        let header = Header {
            id: spare.id,
            log_id,
            next_revision: self.tail.next_revision,
            before: self.tail.shared.latest(),
            oldest: self.tail.shared.table().oldest().map_or(spare.id, |s| s.segment.id),
            previous_end: self.tail.active.as_ref().map_or(0, |_| self.tail.end),
            bytes: segment_bytes,
        };
        let disk = &self.tail.shared.spares.disk;
        self.tail.shared.begin_write();
        let written = self.write_where_room_is(&segment, &header.encode(), 0);
        let written = written.and_then(|()| disk.sync(segment.id, &segment.file));
        self.tail.shared.end_write();
        if let Err(error) = written {
            self.fail(&error);
            return Err(unavailable(&error));
        }
        // Set before the segment's first frame: whatever happens to the segment later, it existed.
        self.mark.set_durably(Durable { segment: segment.id, end: HEADER }, &**disk);
        self.tail.shared.table_mut().push(IndexSlot::new(Arc::clone(&segment), &header));
        self.tail.active = Some(segment);
        self.tail.end = HEADER;
        Ok(())
    }

    /// Stops the store. After a failed sync, a later successful one proves nothing, because the system may have
    /// dropped the pages. Only reading the log again shows what is there.
    fn fail(&mut self, error: &io::Error) {
        let why = unavailable(error);
        tracing::error!(%error, "cannot write the log; the store refuses writes until a restart");
        self.tail.shared.queue.close(why.clone());
        for pending in self.tail.group.pending.drain(..) {
            if let Some((_, reply)) = pending.write {
                answer(reply, Verdict::Settled(WriteOutcome::Unknown(why.clone())));
            }
        }
        for reply in self.tail.group.conflicts.drain(..) {
            refuse(reply, why.clone());
        }
        self.tail.shared.set_failed(why.clone());
        self.failed = Some(why);
        self.tail.group = Group::default();
    }

    /// Ends the log with a frame of its own. Damage to the last group can then be told from a torn group.
    pub fn finish(&mut self) {
        if self.failed.is_some() || self.tail.active.is_none() {
            return;
        }
        let oldest = self.tail.shared.table().oldest().map(|s| s.segment.id);
        if let Some(oldest) = oldest
            && self.tail.append_oldest(oldest)
            && let Err(error) = self.write_and_sync()
        {
            return self.fail(&error);
        }
        if let Some(segment) = &self.tail.active {
            let durable = Durable { segment: segment.id, end: self.tail.end };
            self.mark.set_durably(durable, &*self.tail.shared.spares.disk);
        }
    }
}

/// Closes the queue and answers its waiting callers when the writer ends, however it ends.
struct LastWords(Arc<EmbeddedShared>);

impl Drop for LastWords {
    fn drop(&mut self) {
        let why = StoreError::Unavailable("the store's writer has ended".to_owned());
        self.0.queue.close(why.clone());
        for job in self.0.queue.drain() {
            refuse(job.reply, why.clone());
        }
    }
}

fn index_of(index: usize) -> u8 {
    u8::try_from(index).unwrap_or(u8::MAX)
}

fn unavailable(error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("the log cannot be written ({error}); restart tenure"))
}

fn refuse(reply: oneshot::Sender<Verdict>, why: StoreError) {
    answer(reply, Verdict::Settled(WriteOutcome::Refused(why)));
}

fn answer(reply: oneshot::Sender<Verdict>, verdict: Verdict) {
    // The caller may have gone; the write is durable all the same.
    let _ = reply.send(verdict);
}
