//! One committed write as bytes.
//!
//! ```text
//! 0 crc u32 | 4 len u32 | 8 revision u64 | 16 at_ms u64 | 24 group_start u32 | 28 record_len u32
//! 32 key_len u16 | 34 epoch u16 | 36 kind u8 | 37 zero ×3 | 40 key, record, changes | zeros to ×8
//! ```
//! Little endian. The CRC-32 covers everything from `len` on and is seeded per store and segment, so
//! that neither a frame of a recycled segment nor one of another store is ever taken for one of this.

use crate::lease::{Change, Epoch, Key, Record, Revision};

/// Frames start at multiples of this, so that a search for frames behind damage has few candidates.
pub(super) const ALIGN: u32 = 8;
/// Bytes before the key.
pub(super) const HEAD: usize = 40;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A committed write: a record and its changes.
    Write,
    /// A copy of a current record out of a segment that is to be retired; its changes stayed behind.
    Carried,
    /// Says which segment is the oldest that the log needs. `record` is its id, little endian.
    Oldest,
    /// The key has no record any more; there is none in the frame. It is never carried: everything before
    /// it about its key is in the same segment, or in an earlier one.
    Forgotten,
    /// A newer program wrote it, and this one does not know what for. It is read, never written.
    Newer,
}

impl Kind {
    fn from_byte(byte: u8) -> Self {
        let all = [Self::Write, Self::Carried, Self::Oldest, Self::Forgotten];
        all.into_iter().find(|kind| *kind as u8 == byte).unwrap_or(Self::Newer)
    }
}

/// What the writer adds to a drafted frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub revision: Revision,
    pub at_ms: u64,
    pub epoch: Epoch,
    pub kind: Kind,
    /// Offset of the first frame of the group that is made durable by one sync: everything before it
    /// was durable when this frame was written.
    pub group_start: u32,
}

/// A frame whose checksum was right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub len: u32,
    pub revision: Revision,
    pub at_ms: u64,
    pub epoch: Epoch,
    pub kind: Kind,
    pub group_start: u32,
    pub key: &'a str,
    pub record: &'a [u8],
    changes: &'a [u8],
}

/// How many bytes a frame of `len` takes up.
pub(super) fn padded(len: u32) -> u32 {
    len.next_multiple_of(ALIGN)
}

/// A frame without its stamp. Made by the caller's thread, so that the writer only copies.
///
/// `None` when it is longer than 4 GiB.
pub(super) fn draft(key: &Key, record: &Record, changes: &[Change]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    out.resize(HEAD, 0);
    out.extend_from_slice(key.as_str().as_bytes());
    let record_at = out.len();
    record.encode_into(&mut out);
    let record_len = out.len() - record_at;
    if !changes.is_empty() {
        postcard::to_io(changes, &mut out).ok()?;
    }
    finish_draft(&mut out, key.as_str().len(), record_len)?;
    Some(out)
}

/// A draft with the given raw content and no changes.
pub(super) fn draft_raw(out: &mut Vec<u8>, key: &str, record: &[u8]) -> Option<()> {
    out.clear();
    out.resize(HEAD, 0);
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(record);
    finish_draft(out, key.len(), record.len())
}

fn finish_draft(out: &mut [u8], key_len: usize, record_len: usize) -> Option<()> {
    let len = u32::try_from(out.len()).ok().filter(|len| *len < u32::MAX - ALIGN)?;
    put(out, 4, &len.to_le_bytes());
    put(out, 28, &u32::try_from(record_len).ok()?.to_le_bytes());
    put(out, 32, &u16::try_from(key_len).ok()?.to_le_bytes());
    Some(())
}

/// Stamps a draft and sets its checksum.
pub(super) fn seal(frame: &mut [u8], seed: u32, stamp: Stamp) {
    put(frame, 8, &stamp.revision.0.to_le_bytes());
    put(frame, 16, &stamp.at_ms.to_le_bytes());
    put(frame, 24, &stamp.group_start.to_le_bytes());
    put(frame, 34, &stamp.epoch.0.to_le_bytes());
    frame[36] = stamp.kind as u8;
    let crc = checksum(&frame[4..], seed);
    put(frame, 0, &crc.to_le_bytes());
}

fn checksum(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// The length that a frame at the start of `bytes` claims; `None` when there cannot be one.
pub(super) fn claimed_len(bytes: &[u8]) -> Option<u32> {
    let len = u32_at(bytes, 4)?;
    (len as usize >= HEAD).then_some(len)
}

/// What claims to be a frame at the start of `bytes`, with the lengths of its key and record: all that is wrong with it
/// is its checksum, or nothing.
fn claimed(bytes: &[u8]) -> Option<(&[u8], usize, usize)> {
    let len = claimed_len(bytes)?;
    let frame = bytes.get(..len as usize)?;
    let (key_len, record_len) = (usize::from(u16_at(frame, 32)?), u32_at(frame, 28)? as usize);
    let fits = key_len.checked_add(record_len)? <= frame.len() - HEAD;
    fits.then_some((frame, key_len, record_len))
}

/// The frame at the start of `bytes`, if there is a whole and sound one. Never panics.
pub(super) fn parse(bytes: &[u8], seed: u32) -> Option<Frame<'_>> {
    let (frame, key_len, record_len) = claimed(bytes)?;
    if checksum(&frame[4..], seed) != u32_at(frame, 0)? {
        return None;
    }
    let (len, content) = (u32_at(frame, 4)?, &frame[HEAD..]);
    let (key, rest) = content.split_at(key_len);
    let (record, changes) = rest.split_at(record_len);
    Some(Frame {
        len,
        revision: Revision(u64_at(frame, 8)?),
        at_ms: u64_at(frame, 16)?,
        group_start: u32_at(frame, 24)?,
        epoch: Epoch(u16_at(frame, 34)?),
        kind: Kind::from_byte(frame[36]),
        key: std::str::from_utf8(key).ok()?,
        record,
        changes,
    })
}

/// Sound frames at any place of some bytes, found in a time that grows with the bytes alone: what a caller put into a value
/// may claim at each place to be a frame of megabytes. A checksum of any part comes from those of two beginnings.
pub(super) struct Search<'a> {
    bytes: &'a [u8],
    seed: u32,
    /// The checksum of the bytes before each multiple of [`STEP`].
    beginnings: Vec<u32>,
}

/// Bytes from one known checksum to the next.
const STEP: usize = 64;

impl<'a> Search<'a> {
    pub fn new(bytes: &'a [u8], seed: u32) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        let mut beginnings = vec![0];
        for step in bytes.chunks_exact(STEP) {
            hasher.update(step);
            beginnings.push(hasher.clone().finalize());
        }
        Self { bytes, seed, beginnings }
    }

    /// Whether any sound frame is such a one.
    pub fn any(&self, such: impl Fn(&Frame<'_>) -> bool) -> bool {
        (0..self.bytes.len()).step_by(ALIGN as usize).any(|at| {
            let there = &self.bytes[at..];
            let Some((frame, ..)) = claimed(there) else { return false };
            let sum = self.checksum(at + 4, at + frame.len());
            u32_at(frame, 0) == Some(sum) && parse(there, self.seed).is_some_and(|f| such(&f))
        })
    }

    /// [`checksum`] of a part: the checksum of what ends where it ends, less that of what it begins after.
    fn checksum(&self, from: usize, to: usize) -> u32 {
        let span = (to - from) as u64;
        let shifted = |sum: u32| {
            let mut hasher = crc32fast::Hasher::new_with_initial_len(sum, 0);
            hasher.combine(&crc32fast::Hasher::new_with_initial_len(0, span));
            hasher.finalize()
        };
        shifted(self.seed) ^ shifted(self.before(from)) ^ self.before(to)
    }

    /// The checksum of all that is before this place.
    fn before(&self, at: usize) -> u32 {
        let known = at / STEP;
        let mut hasher = crc32fast::Hasher::new_with_initial(self.beginnings[known]);
        hasher.update(&self.bytes[known * STEP..at]);
        hasher.finalize()
    }
}

impl Frame<'_> {
    /// The changes of the write, as they were drafted. None when they cannot be read.
    pub fn changes(&self) -> Option<Vec<Change>> {
        if self.changes.is_empty() {
            return Some(Vec::new());
        }
        postcard::from_bytes(self.changes).ok()
    }

    /// How many changes the write has, without reading them.
    pub fn change_count(&self) -> Option<usize> {
        if self.changes.is_empty() {
            return Some(0);
        }
        postcard::take_from_bytes::<u32>(self.changes).ok().map(|(count, _)| count as usize)
    }
}

pub(super) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_le_bytes(*b))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

pub(super) fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    bytes.get(at..)?.first_chunk().map(|b| u128::from_le_bytes(*b))
}
