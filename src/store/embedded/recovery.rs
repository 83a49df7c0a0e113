//! Reads the log when a store is opened, and decides whether it is damaged.
//!
//! The log is a sequence of groups. One sync makes each group durable before the next one begins, and no
//! group spans two segments. So a crash can tear only the last group of the newest segment: some of its
//! sectors are there and some are not. Each frame records where its group began. Hence an invalid place is a
//! legitimate end of the log exactly if no valid frame after it belongs to a later group, and the
//! [`mark`](super::mark) does not say that more was durable. Recovery then overwrites everything after that
//! place. An invalid place anywhere else is damage, and the store is not opened. Recovery changes nothing
//! before it has judged everything.

use std::{
    collections::{HashMap, VecDeque},
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
};

use super::{
    super::Position,
    directory::Directory,
    disk::Disk,
    error::EmbeddedOpenError,
    frame::{Frame, FrameKind, u64_at},
    index::Location,
    mark::{Durable, Mark},
    segment::{HEADER, Header, Segment, VERSION},
    spares::Spare,
    table::{IndexSlot, Table},
};
use crate::lease::{Condition, Key, Revision};

/// The content of the log.
#[derive(Debug)]
pub(super) struct Recovered {
    pub table: Table,
    /// The revision of the next write.
    pub next_revision: Revision,
    /// The position of the last change.
    pub latest: Position,
    /// Empty segments that can be used, in the order of their ids.
    pub spares: VecDeque<Spare>,
    /// The id of the next segment to be made.
    pub next_id: u64,
}

/// Reads the whole log of `directory`.
pub(super) fn recover(
    directory: &Directory,
    mark: &Mark,
    disk: &dyn Disk,
    segment_bytes: u32,
) -> Result<Recovered, EmbeddedOpenError> {
    let mut recovery = Recovery {
        directory,
        mark,
        disk,
        table: Table::default(),
        current: HashMap::new(),
        next_revision: Revision(1),
        latest: Position::default(),
    };
    let files = recovery.open_files()?;
    let newest = files.iter().rposition(|f| f.header.is_some());
    let mut files = VecDeque::from(files);
    let unused = files.split_off(newest.map_or(0, |n| n + 1));
    recovery.refuse_used(&unused)?;
    recovery.refuse_missing(files.back())?;
    let mut next_id = 1;
    if let Some(last) = files.back() {
        next_id = last.segment.id + 1;
        let oldest = recovery.judge_newest(last)?;
        let needed = files.partition_point(|f| f.segment.id < oldest);
        let leftovers: Vec<u64> = files.drain(..needed).map(|f| f.segment.id).collect();
        recovery.read_log(files, oldest)?;
        // Only now: the frames carried out of them have just been made durable.
        leftovers.into_iter().for_each(|id| recovery.remove(id));
    }
    let spares = recovery.sort_out(unused, &mut next_id, segment_bytes);
    let Recovery { mut table, current, next_revision, latest, .. } = recovery;
    table.load(current);
    Ok(Recovered { table, next_revision, latest, spares, next_id })
}

struct Candidate {
    segment: Segment,
    /// `None` if the segment is not in use, or if its header is damaged.
    header: Option<Header>,
}

struct Recovery<'a> {
    directory: &'a Directory,
    mark: &'a Mark,
    disk: &'a dyn Disk,
    table: Table,
    /// The last frame of each key so far.
    current: HashMap<Key, Location>,
    next_revision: Revision,
    latest: Position,
}

impl Recovery<'_> {
    fn path(&self, id: u64) -> PathBuf {
        Segment::path(&self.directory.path, id)
    }

    fn corrupt(&self, id: u64, offset: u32, why: &'static str) -> EmbeddedOpenError {
        EmbeddedOpenError::Corrupt { file: self.path(id), offset: u64::from(offset), why }
    }

    fn open_files(&self) -> Result<Vec<Candidate>, EmbeddedOpenError> {
        self.directory.segment_ids()?.into_iter().map(|id| self.open_file(id)).collect()
    }

    fn open_file(&self, id: u64) -> Result<Candidate, EmbeddedOpenError> {
        let path = self.path(id);
        let open = || -> std::io::Result<(File, u64, Vec<u8>)> {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let bytes = file.metadata()?.len();
            let mut header = vec![0; bytes.min(u64::from(HEADER)) as usize];
            file.read_exact_at(&mut header, 0)?;
            Ok((file, bytes, header))
        };
        let (file, bytes, header) = open().map_err(EmbeddedOpenError::at(&path))?;
        let bytes = u32::try_from(bytes).map_err(|_| self.corrupt(id, 0, "it is too long"))?;
        if let Some(found) = Header::newer(&header) {
            return Err(EmbeddedOpenError::NewerVersion { path, found, known: VERSION });
        }
        let header = Header::decode(&header, id, self.directory.meta.log_id);
        if header.is_some_and(|header| header.bytes != 0 && header.bytes != bytes) {
            return Err(self.corrupt(id, bytes, "its size has changed"));
        }
        let segment = Segment::new(id, self.directory.meta.log_id, file, bytes);
        Ok(Candidate { segment, header })
    }

    /// Checks that files newer than the log are empty. A segment with a damaged header is not.
    fn refuse_used(&self, unused: &VecDeque<Candidate>) -> Result<(), EmbeddedOpenError> {
        for Candidate { segment, .. } in unused {
            let used = segment.has_frame_from(HEADER, |_| true);
            if used.map_err(EmbeddedOpenError::at(self.path(segment.id)))? {
                return Err(self.corrupt(segment.id, 0, "its header"));
            }
        }
        Ok(())
    }

    /// Checks that the log does not end in a segment before the newest one that was begun.
    fn refuse_missing(&self, newest: Option<&Candidate>) -> Result<(), EmbeddedOpenError> {
        let begun = self.mark.found.map_or(0, |durable| durable.segment);
        if begun <= newest.map_or(0, |newest| newest.segment.id) {
            return Ok(());
        }
        let there = self.path(begun).exists();
        Err(self.corrupt(begun, 0, if there { "it is empty" } else { "the file is missing" }))
    }

    /// Refuses a log whose end is damaged. Returns the oldest segment that the log needs, as the newest segment
    /// says in its header or later.
    fn judge_newest(&self, newest: &Candidate) -> Result<u64, EmbeddedOpenError> {
        let segment = &newest.segment;
        let at = |error| EmbeddedOpenError::at(self.path(segment.id))(error);
        let mut oldest = newest.header.map_or(0, |h| h.oldest);
        let mut frames = segment.frames(HEADER, segment.bytes);
        while let Some((_, frame)) = frames.next().map_err(at)? {
            if frame.kind == FrameKind::Oldest {
                oldest = u64_at(frame.record, 0).unwrap_or(oldest);
            }
        }
        let end = frames.at();
        if segment.has_frame_from(end, |frame| frame.group_start > end).map_err(at)? {
            return Err(self.corrupt(segment.id, end, "no valid record where the log had one"));
        }
        let durable = self.mark.found.filter(|durable| durable.segment == segment.id);
        if durable.is_some_and(|durable| durable.end > end) {
            return Err(self.corrupt(segment.id, end, "the log continued beyond this place"));
        }
        Ok(oldest)
    }

    fn remove(&self, id: u64) {
        if let Err(error) = self.disk.remove(&self.path(id)) {
            tracing::warn!(segment = id, %error, "cannot remove an unused segment");
        }
    }

    fn read_log(
        &mut self,
        files: VecDeque<Candidate>,
        oldest: u64,
    ) -> Result<(), EmbeddedOpenError> {
        let mut files = files.into_iter().peekable();
        let mut expected = oldest;
        while let Some(file) = files.next() {
            let id = file.segment.id;
            if id != expected {
                return Err(self.corrupt(expected, 0, "the file is missing"));
            }
            expected += 1;
            let header = file.header.ok_or_else(|| self.corrupt(id, 0, "its header"))?;
            self.next_revision = self.next_revision.max(header.next_revision);
            self.latest = self.latest.max(header.before);
            self.table.push(IndexSlot::new(Arc::new(file.segment), &header));
            match files.peek() {
                Some(next) => {
                    // The header of the next segment is judged in its turn.
                    let end = next.header.map_or(HEADER, |h| h.previous_end);
                    self.read_sealed(end)?;
                }
                None => self.read_newest()?,
            }
        }
        Ok(())
    }

    /// Reads a segment that must have valid frames exactly up to `end`.
    fn read_sealed(&mut self, end: u32) -> Result<(), EmbeddedOpenError> {
        let segment = self.newest_segment();
        let (at, _) = self.read_frames(&segment, end)?;
        if at != end {
            return Err(self.corrupt(segment.id, at, "no valid record where the log had one"));
        }
        self.table.extend_newest(end);
        Ok(())
    }

    /// Reads the newest segment, finds its end and makes it final.
    fn read_newest(&mut self) -> Result<(), EmbeddedOpenError> {
        let segment = self.newest_segment();
        let (end, last_group) = self.read_frames(&segment, segment.bytes)?;
        self.table.extend_newest(end);
        self.settle(&segment, last_group, end)
            .map_err(EmbeddedOpenError::at(self.path(segment.id)))?;
        self.mark.set_durably(Durable { segment: segment.id, end }, self.disk);
        Ok(())
    }

    /// Makes everything that was accepted durable, and makes sure that nothing else comes back.
    ///
    /// After a failed sync, the system may hold pages that it takes for durable although they are not. Only the
    /// header and the last group can be such pages, so both are written again. Zeros after them may not be
    /// durable either: an earlier process may have written them before its sync failed.
    fn settle(&self, segment: &Segment, last_group: u32, end: u32) -> std::io::Result<()> {
        self.disk.write(segment.id, &segment.file, &segment.read(0, HEADER)?, 0)?;
        let group = segment.read(last_group, end - last_group)?;
        self.disk.write(segment.id, &segment.file, &group, last_group)?;
        let rest = segment.read(end, segment.bytes - end)?;
        if let Some(last) = rest.iter().rposition(|byte| *byte != 0) {
            let why = "removing the rest of a torn write, which was never acknowledged";
            tracing::warn!(segment = segment.id, at = end, bytes = last + 1, "{why}");
        }
        self.disk.write(segment.id, &segment.file, &vec![0; rest.len()], end)?;
        self.disk.sync(segment.id, &segment.file)
    }

    /// Reads valid frames up to `end`. Returns where they end and where their last group begins.
    fn read_frames(
        &mut self,
        segment: &Segment,
        end: u32,
    ) -> Result<(u32, u32), EmbeddedOpenError> {
        let mut frames = segment.frames(HEADER, end);
        let mut last_group = HEADER;
        loop {
            let next = frames.next().map_err(EmbeddedOpenError::at(self.path(segment.id)))?;
            let Some((offset, frame)) = next else { return Ok((frames.at().min(end), last_group)) };
            if frame.group_start > offset || frame.group_start < last_group {
                return Err(self.corrupt(segment.id, offset, "records out of order"));
            }
            if frame.kind == FrameKind::Newer {
                let (path, found) = (self.path(segment.id), VERSION + 1);
                return Err(EmbeddedOpenError::NewerVersion { path, found, known: VERSION });
            }
            last_group = frame.group_start;
            let taken = self.take_in(segment.id, offset, &frame);
            taken.map_err(|why| self.corrupt(segment.id, offset, why))?;
        }
    }

    /// Adds one frame, or says what is wrong with it.
    fn take_in(&mut self, id: u64, offset: u32, frame: &Frame<'_>) -> Result<(), &'static str> {
        if frame.kind == FrameKind::Oldest {
            return Ok(());
        }
        if matches!(frame.kind, FrameKind::Write | FrameKind::Forgotten) {
            if frame.revision < self.next_revision {
                return Err("records out of order");
            }
            let changes = frame.change_count().ok_or("malformed changes")?;
            self.next_revision = Revision(frame.revision.0 + 1);
            if let Some(index) = changes.checked_sub(1) {
                let index = u8::try_from(index).unwrap_or(u8::MAX);
                self.latest = Position { revision: frame.revision, index: u32::from(index) };
            }
            if let Some(slot) = self.table.newest() {
                slot.mark(frame.revision, offset);
            }
        }
        if frame.kind == FrameKind::Forgotten {
            self.current.remove(frame.key);
            return Ok(());
        }
        let condition = frame.condition().unwrap_or(Condition::UNREADABLE);
        let location = Location::new(frame.revision, id, offset, frame.len, condition);
        match self.current.get_mut(frame.key) {
            Some(known) => *known = location,
            None => {
                let key = Key::stored(frame.key).map_err(|_| "a malformed key")?;
                self.current.insert(key, location);
            }
        }
        Ok(())
    }

    fn newest_segment(&mut self) -> Arc<Segment> {
        let slot = self.table.newest();
        Arc::clone(&slot.expect("a segment was pushed just before").segment)
    }

    /// Handles the empty files newer than the log: they remain spares.
    fn sort_out(
        &self,
        unused: VecDeque<Candidate>,
        next_id: &mut u64,
        segment_bytes: u32,
    ) -> VecDeque<Spare> {
        let mut spares = VecDeque::new();
        for Candidate { segment, .. } in unused {
            if segment.id == *next_id && segment.bytes == segment_bytes {
                *next_id += 1;
                spares.push_back(Spare { id: segment.id, file: segment.file });
            } else {
                self.remove(segment.id);
            }
        }
        spares
    }
}
