//! The only thread that writes. It judges, appends and syncs writes, and only then answers the callers.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    super::{Committed, Counts, News, Outcome, Position, StoreError},
    Shared,
    compaction::Compaction,
    frame::{self, Kind, Stamp, padded},
    index::Location,
    mark::{Durable, Mark},
    queue::{Job, Verdict},
    segment::{HEADER, Header, Segment},
    table::Slot,
};
use crate::lease::{Change, Key, Nonce, Revision};

/// How soon a write that found no room is tried again.
const ROOM_RETRY: Duration = Duration::from_millis(200);
/// The highest number of writes that one sync makes durable.
const MAX_GROUP: usize = 4096;
/// A group is closed once it has this many bytes.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// A frame of the group. Once the group is durable, it is the current frame of its key.
#[derive(Debug)]
pub(super) struct Pending {
    pub key: Key,
    pub location: Location,
    pub kind: Kind,
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
    conflicts: Vec<oneshot::Sender<Verdict>>,
    new_keys: Counts,
    writes: usize,
    at_ms: u64,
    /// The oldest segment is no longer needed once the group is durable.
    pub retires: bool,
}

/// The writer's own state.
pub(super) struct Writer {
    pub shared: Arc<Shared>,
    pub clock: super::WallClock,
    /// The segment that is being written; `None` until the first write of a new store.
    pub active: Option<Arc<Segment>>,
    /// Where the group goes in the segment.
    pub end: u32,
    pub next_revision: Revision,
    pub group: Group,
    pub compaction: Compaction,
    /// Set once and never cleared.
    pub failed: Option<StoreError>,
    /// Up to where the log is durable.
    mark: Mark,
}

impl Writer {
    pub fn new(
        shared: Arc<Shared>,
        clock: super::WallClock,
        active: Option<Arc<Segment>>,
        end: u32,
        next_revision: Revision,
        mark: Mark,
    ) -> Self {
        let (group, compaction) = (Group::default(), Compaction::default());
        Self { shared, clock, active, end, next_revision, group, compaction, failed: None, mark }
    }

    /// Runs until the queue is closed and empty.
    pub fn run(mut self) {
        // If this thread panics, its waiting callers still get an answer.
        let last_words = LastWords(Arc::clone(&self.shared));
        let mut jobs = Vec::new();
        while self.shared.queue.take(&mut jobs) {
            self.work_off(&mut jobs);
        }
        self.finish();
        drop(last_words);
    }

    /// Settles the writes that came in.
    pub fn work_off(&mut self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            self.judge(job);
            let group = &self.group;
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
        let known = match self.group.revisions.get(&job.key) {
            Some(revision) => Some(*revision),
            None => self.shared.table().index.get(job.key.as_str()).map(Location::revision),
        };
        if known.unwrap_or(Revision::ABSENT) != job.expected {
            self.group.conflicts.push(job.reply);
            return;
        }
        let known = known.filter(|revision| *revision != Revision::ABSENT);
        let counts = self.shared.counts() + self.group.new_keys;
        if known.is_none() && counts.of(&job.key) >= self.shared.max_keys {
            let why = StoreError::too_many(&job.key, self.shared.max_keys);
            return refuse(job.reply, why);
        }
        let bounded = known.is_none() && self.shared.table().bounds(&job.key);
        if bounded && let Err(why) = self.shared.table_mut().admit(&job.key) {
            return refuse(job.reply, why);
        }
        // A draft is always shorter than 4 GiB.
        if let Err(why) = self.make_room(job.draft.len() as u32) {
            if bounded {
                self.shared.table_mut().dismiss(&job.key);
            }
            return refuse(job.reply, why);
        }
        if known.is_none() {
            self.group.new_keys = self.group.new_keys + Counts::one(&job.key);
        }
        self.group.writes += 1;
        let revision = self.next_revision;
        self.next_revision = Revision(revision.0 + 1);
        let kind = job.kind;
        let location = self.append(&job.draft, revision, kind);
        let there = if kind == Kind::Forgotten { Revision::ABSENT } else { revision };
        self.group.revisions.insert(job.key.clone(), there);
        let write = Some((job.changes, job.reply));
        self.group.pending.push(Pending { key: job.key, location, kind, write });
    }

    /// The room that is left in the active segment.
    pub fn room(&self) -> u32 {
        let bytes = self.active.as_ref().map_or(0, |s| s.bytes);
        // A group never exceeds its segment.
        bytes.saturating_sub(self.end + self.group.bytes.len() as u32)
    }

    /// Makes sure that a frame of `len` bytes fits after the group.
    fn make_room(&mut self, len: u32) -> Result<(), StoreError> {
        let most = self.shared.spares.segment_bytes - HEADER;
        if padded(len) > most {
            let why = format!("a record of {len} bytes does not fit into a log segment of {most}");
            return Err(StoreError::Unavailable(why));
        }
        if padded(len) <= self.room() {
            return Ok(());
        }
        // No group spans two segments: recovery relies on it.
        self.commit();
        if let Some(why) = &self.failed {
            return Err(why.clone());
        }
        if padded(len) <= self.room() { Ok(()) } else { self.roll() }
    }

    /// Adds a draft to the group under a new stamp.
    pub fn append(&mut self, draft: &[u8], revision: Revision, kind: Kind) -> Location {
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
        Location::new(stamp.revision, id, self.end + at as u32, draft.len() as u32)
    }

    /// Makes the group durable, then publishes it.
    pub fn commit(&mut self) {
        if !self.group.bytes.is_empty() {
            self.compact();
            if let Err(error) = self.write_and_sync() {
                return self.fail(&error);
            }
            self.publish();
        }
        for reply in self.group.conflicts.drain(..) {
            answer(reply, Verdict::Conflict);
        }
    }

    fn write_and_sync(&mut self) -> io::Result<()> {
        let Some(segment) = &self.active else { return Ok(()) };
        let disk = &self.shared.spares.disk;
        self.shared.begin_write();
        let written = self.write_where_room_is(segment, &self.group.bytes, self.end);
        let observer = self.shared.observer.as_deref();
        let began = observer.map(|o| o.nanos());
        let synced = written.and_then(|()| disk.sync(segment.id, &segment.file));
        self.shared.end_write();
        synced?;
        if let (Some(observer), Some(began)) = (observer, began) {
            let took = Duration::from_nanos(observer.nanos().saturating_sub(began));
            observer.synced(self.group.writes, took);
        }
        // A group never exceeds its segment.
        self.end += self.group.bytes.len() as u32;
        self.mark.set(Durable { segment: segment.id, end: self.end }, &**disk);
        Ok(())
    }

    /// Writes the group, and waits for room. A copy-on-write file system needs room even for a write in place. On
    /// a full disk, the same bytes are written again at the same place until there is room, or until the store is
    /// closed.
    fn write_where_room_is(&self, segment: &Segment, bytes: &[u8], at: u32) -> io::Result<()> {
        let disk = &self.shared.spares.disk;
        let mut said = false;
        loop {
            let written = disk.write(segment.id, &segment.file, bytes, at);
            let full = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            };
            match written {
                Err(error) if full(&error) && self.shared.queue.closed().is_none() => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::error!(%error, "the disk has no room for a write; it is repeated");
                    }
                    self.shared.queue.pause(ROOM_RETRY);
                }
                written => return written,
            }
        }
    }

    /// Publishes a durable group to readers, listeners and callers.
    fn publish(&mut self) {
        let retired = self.apply();
        let listened = self.shared.feed.receiver_count() > 0;
        let mut news = Vec::new();
        let mut replies = Vec::with_capacity(self.group.pending.len());
        let (at_ms, epoch) = (self.group.at_ms, self.shared.meta.epoch);
        for Pending { key, location, write, .. } in self.group.pending.drain(..) {
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
        self.shared.counters.committed(self.group.writes);
        if !news.is_empty() {
            // An error only means that there are no listeners.
            let _ = self.shared.feed.send(News::Changes(news.into()));
        }
        for (reply, revision) in replies {
            answer(reply, Verdict::Settled(Outcome::Committed(revision)));
        }
        if let Some(segment) = retired {
            self.shared.spares.retire(segment);
        }
        self.group.bytes.clear();
        self.group.revisions.clear();
        self.group.new_keys = Counts::default();
        self.group.writes = 0;
    }

    /// Brings the table up to date. Returns the segment that is no longer needed.
    fn apply(&mut self) -> Option<Arc<Segment>> {
        let mut table = self.shared.table_mut();
        for Pending { key, location, kind, write } in &self.group.pending {
            match kind {
                Kind::Forgotten => table.remove(key),
                _ => table.set(key, *location),
            }
            let Some((changes, _)) = write else { continue };
            let revision = location.revision();
            if let Some(slot) = table.newest() {
                slot.mark(revision, location.offset());
            }
            if let Some(last) = changes.len().checked_sub(1) {
                // Under the lock, so that nobody reads a change of a history that has not begun yet.
                self.shared.set_latest(Position { revision, index: u32::from(index_of(last)) });
            }
        }
        table.extend_newest(self.end);
        self.shared.note_sizes(&table);
        let retires = std::mem::take(&mut self.group.retires);
        let retired = retires.then(|| table.retire_oldest()).flatten();
        drop(table);
        if retires {
            self.compaction.forget_segment();
        }
        retired
    }

    /// Continues in a new segment. The group must be empty.
    fn roll(&mut self) -> Result<(), StoreError> {
        let spare = self.shared.spares.take()?;
        let segment_bytes = self.shared.spares.segment_bytes;
        let log_id = self.shared.log_id;
        let segment = Arc::new(Segment::new(spare.id, log_id, spare.file, segment_bytes));
        let header = Header {
            id: spare.id,
            log_id,
            next_revision: self.next_revision,
            before: self.shared.latest(),
            oldest: self.shared.table().oldest().map_or(spare.id, |s| s.segment.id),
            previous_end: self.active.as_ref().map_or(0, |_| self.end),
            bytes: segment_bytes,
        };
        let disk = &self.shared.spares.disk;
        self.shared.begin_write();
        let written = self.write_where_room_is(&segment, &header.encode(), 0);
        let written = written.and_then(|()| disk.sync(segment.id, &segment.file));
        self.shared.end_write();
        if let Err(error) = written {
            self.fail(&error);
            return Err(unavailable(&error));
        }
        // Set before the segment's first frame: whatever happens to the segment later, it existed.
        self.mark.set_durably(Durable { segment: segment.id, end: HEADER }, &**disk);
        self.shared.table_mut().push(Slot::new(Arc::clone(&segment), &header));
        self.active = Some(segment);
        self.end = HEADER;
        Ok(())
    }

    /// Stops the store. After a failed sync, a later successful one proves nothing, because the system may have
    /// dropped the pages. Only reading the log again shows what is there.
    fn fail(&mut self, error: &io::Error) {
        let why = unavailable(error);
        tracing::error!(%error, "cannot write the log; the store refuses writes until a restart");
        self.shared.queue.close(why.clone());
        for pending in self.group.pending.drain(..) {
            if let Some((_, reply)) = pending.write {
                answer(reply, Verdict::Settled(Outcome::Unknown(why.clone())));
            }
        }
        for reply in self.group.conflicts.drain(..) {
            refuse(reply, why.clone());
        }
        self.shared.set_failed(why.clone());
        self.failed = Some(why);
        self.group = Group::default();
    }

    /// Ends the log with a frame of its own. Damage to the last group can then be told from a torn group.
    pub fn finish(&mut self) {
        if self.failed.is_some() || self.active.is_none() {
            return;
        }
        let oldest = self.shared.table().oldest().map(|s| s.segment.id);
        if let Some(oldest) = oldest
            && self.append_oldest(oldest)
            && let Err(error) = self.write_and_sync()
        {
            return self.fail(&error);
        }
        if let Some(segment) = &self.active {
            let durable = Durable { segment: segment.id, end: self.end };
            self.mark.set_durably(durable, &*self.shared.spares.disk);
        }
    }

    /// Adds "the oldest segment is `id`" to the group, if it fits.
    pub fn append_oldest(&mut self, id: u64) -> bool {
        let mut draft = Vec::new();
        let drafted = frame::draft_raw(&mut draft, "", &id.to_le_bytes());
        let fits = padded(draft.len() as u32) <= self.room();
        if drafted.is_none() || !fits {
            return false;
        }
        let last = Revision(self.next_revision.0 - 1);
        self.append(&draft, last, Kind::Oldest);
        true
    }
}

/// Closes the queue and answers its waiting callers when the writer ends, however it ends.
struct LastWords(Arc<Shared>);

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
    answer(reply, Verdict::Settled(Outcome::Refused(why)));
}

fn answer(reply: oneshot::Sender<Verdict>, verdict: Verdict) {
    // The caller may have gone; the write is durable all the same.
    let _ = reply.send(verdict);
}
