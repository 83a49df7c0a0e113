//! One committed write as bytes.
//!
//! ```text
//! 0 crc u32 | 4 len u32 | 8 revision u64 | 16 at_ms u64 | 24 group_start u32 | 28 record_len u32
//! 32 key_len u16 | 34 epoch u16 | 36 kind u8 | 37 condition u8 | 38 zero ×2 | 40 key, record, changes
//! zeros to ×8
//! ```
//! Little endian. `condition` repeats from the record what counts in the census; version 0.1.0 wrote 0. The CRC-32 covers everything from `len` on. It is seeded per store and segment, so a frame
//! of a reused segment, or of another store, is never taken for a frame of this one.

use crate::lease::{Change, Condition, Epoch, Key, Record, Revision};

/// Frames start at multiples of this many bytes, so a search for frames after damage has few candidates.
pub(super) const ALIGN: u32 = 8;
/// The number of bytes before the key.
pub(super) const HEAD: usize = 40;
/// Where the condition is.
const CONDITION: usize = 37;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// A committed write: a record and its changes.
    Write,
    /// A copy of a current record from a segment that will be retired. The record's changes are not copied.
    Carried,
    /// Names the oldest segment that the log needs. `record` is its id, little endian.
    Oldest,
    /// The key has no record any more, and this frame holds none. Such a frame is never carried: everything
    /// before it about its key is in the same segment, or in an earlier one.
    Forgotten,
    /// A newer program wrote it, and this one does not know its purpose. It is read, never written.
    Newer,
}

impl FrameKind {
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
    pub kind: FrameKind,
    /// The offset of the first frame of this frame's group, which one sync makes durable. Everything before it
    /// was durable when this frame was written.
    pub group_start: u32,
}

/// A frame with a correct checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub len: u32,
    pub revision: Revision,
    pub at_ms: u64,
    pub epoch: Epoch,
    pub kind: FrameKind,
    pub group_start: u32,
    condition: u8,
    pub key: &'a str,
    pub record: &'a [u8],
    changes: &'a [u8],
}

impl Frame<'_> {
    /// What counts of the key under this record; `None` if the record cannot be read.
    pub fn condition(&self) -> Option<Condition> {
        let beside = Condition::from_bits(self.condition);
        beside.or_else(|| Record::decode(self.record).ok().map(|record| record.condition()))
    }
}

/// The number of bytes that a frame of `len` takes up.
pub(super) fn padded(len: u32) -> u32 {
    len.next_multiple_of(ALIGN)
}

/// A frame without its stamp. The caller's thread makes it, so that the writer only copies.
///
/// `None` if the frame would be longer than 4 GiB.
pub(super) fn draft(key: &Key, record: &Record, changes: &[Change]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    out.resize(HEAD, 0);
    out.extend_from_slice(key.as_str().as_bytes());
    out[CONDITION] = record.condition().to_bits();
    let record_at = out.len();
    record.encode_into(&mut out);
    let record_len = out.len() - record_at;
    if !changes.is_empty() {
        postcard::to_io(changes, &mut out).ok()?;
    }
    finish_draft(&mut out, key.as_str().len(), record_len)?;
    Some(out)
}

/// A draft with the given raw content and no changes. A record that cannot be read has no condition.
pub(super) fn draft_raw(
    out: &mut Vec<u8>,
    key: &str,
    record: &[u8],
    condition: Option<Condition>,
) -> Option<()> {
    out.clear();
    out.resize(HEAD, 0);
    out[CONDITION] = condition.map_or(0, Condition::to_bits);
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

/// The condition that a draft's record has.
pub(super) fn condition_of(draft: &[u8]) -> Condition {
    let bits = draft.get(CONDITION).copied().unwrap_or_default();
    Condition::from_bits(bits).unwrap_or(Condition::UNREADABLE)
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

/// The length that a frame at the start of `bytes` claims; `None` if no frame can be there.
pub(super) fn claimed_len(bytes: &[u8]) -> Option<u32> {
    let len = u32_at(bytes, 4)?;
    (len as usize >= HEAD).then_some(len)
}

/// The claimed frame at the start of `bytes`, with the lengths of its key and its record. It is valid except that
/// its checksum may be wrong.
fn claimed(bytes: &[u8]) -> Option<(&[u8], usize, usize)> {
    let len = claimed_len(bytes)?;
    let frame = bytes.get(..len as usize)?;
    let (key_len, record_len) = (usize::from(u16_at(frame, 32)?), u32_at(frame, 28)? as usize);
    let fits = key_len.checked_add(record_len)? <= frame.len() - HEAD;
    fits.then_some((frame, key_len, record_len))
}

/// The frame at the start of `bytes`, if there is a complete and valid one. Never panics.
pub(super) fn parse(bytes: &[u8], seed: u32) -> Option<Frame<'_>> {
    let (frame, key_len, record_len) = claimed(bytes)?;
    if checksum(&frame[4..], seed) != u32_at(frame, 0)? {
        return None;
    }
    let (len, content) = (u32_at(frame, 4)?, &frame[HEAD..]);
    let (key, rest) = content.split_at(key_len);
    let (record, changes) = rest.split_at(record_len);
    Some(Frame {
        condition: frame[CONDITION],
        len,
        revision: Revision(u64_at(frame, 8)?),
        at_ms: u64_at(frame, 16)?,
        group_start: u32_at(frame, 24)?,
        epoch: Epoch(u16_at(frame, 34)?),
        kind: FrameKind::from_byte(frame[36]),
        key: std::str::from_utf8(key).ok()?,
        record,
        changes,
    })
}

/// Finds valid frames at any offset, in a time that depends only on the number of bytes. A caller's value may
/// claim a frame of megabytes at each offset. The checksum of any part is computed from the checksums of two
/// prefixes.
pub(super) struct Search<'a> {
    bytes: &'a [u8],
    seed: u32,
    /// The checksum of the bytes before each multiple of [`STEP`].
    beginnings: Vec<u32>,
}

/// The number of bytes from one known checksum to the next.
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

    /// Whether any valid frame satisfies `such`.
    pub fn any(&self, such: impl Fn(&Frame<'_>) -> bool) -> bool {
        (0..self.bytes.len()).step_by(ALIGN as usize).any(|at| {
            let there = &self.bytes[at..];
            let Some((frame, ..)) = claimed(there) else { return false };
            let sum = self.checksum(at + 4, at + frame.len());
            u32_at(frame, 0) == Some(sum) && parse(there, self.seed).is_some_and(|f| such(&f))
        })
    }

    /// The [`checksum`] of a part: the checksum of the prefix that ends where the part ends, without that of the
    /// prefix before the part.
    fn checksum(&self, from: usize, to: usize) -> u32 {
        let span = (to - from) as u64;
        let shifted = |sum: u32| {
            let mut hasher = crc32fast::Hasher::new_with_initial_len(sum, 0);
            hasher.combine(&crc32fast::Hasher::new_with_initial_len(0, span));
            hasher.finalize()
        };
        shifted(self.seed) ^ shifted(self.before(from)) ^ self.before(to)
    }

    /// The checksum of everything before this offset.
    fn before(&self, at: usize) -> u32 {
        let known = at / STEP;
        let mut hasher = crc32fast::Hasher::new_with_initial(self.beginnings[known]);
        hasher.update(&self.bytes[known * STEP..at]);
        hasher.finalize()
    }
}

impl Frame<'_> {
    /// The changes of the write, as they were drafted; `None` if they cannot be read.
    pub fn changes(&self) -> Option<Vec<Change>> {
        if self.changes.is_empty() {
            return Some(Vec::new());
        }
        postcard::from_bytes(self.changes).ok()
    }

    /// The number of changes of the write. They are not read.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::KeyState;

    /// Version 0.1.0 wrote no condition.
    #[test]
    fn what_counts_of_a_record_is_beside_it_or_is_read_from_it() {
        let record = Record { state: KeyState::Cooling, ..Record::absent() };
        let key = Key::new("k").unwrap();
        let mut draft = draft(&key, &record, &[]).unwrap();
        let stamp = Stamp {
            revision: Revision(1),
            at_ms: 1,
            epoch: Epoch(0),
            kind: FrameKind::Write,
            group_start: 0,
        };
        for beside in [record.condition().to_bits(), 0, 7, 255] {
            draft[CONDITION] = beside;
            seal(&mut draft, 3, stamp);
            assert_eq!(parse(&draft, 3).unwrap().condition(), Some(record.condition()));
        }
        draft_raw(&mut draft, "k", b"rotten", None).unwrap();
        seal(&mut draft, 3, stamp);
        assert_eq!(parse(&draft, 3).unwrap().condition(), None);
        assert_eq!(condition_of(&draft), Condition::UNREADABLE);
    }
}
