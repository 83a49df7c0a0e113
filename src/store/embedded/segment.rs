//! A segment: a file of fixed size. It has a header in a sector of its own, followed by frames.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{
    super::Position,
    frame::{self, ALIGN, Frame, put, u32_at, u64_at, u128_at},
};
use crate::lease::Revision;

/// Where frames begin. The header has a sector of its own, so appending never rewrites it.
pub(super) const HEADER: u32 = 512;
const MAGIC: &[u8; 8] = b"tenureSG";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_CRC_AT: usize = 81;
/// How many bytes a [`Frames`] reads at once.
const WINDOW: u32 = 256 * 1024;

/// What a segment records about itself and about the log before it. It is durable before the segment's first
/// frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Segments are numbered 1, 2, 3…. No number is used twice.
    pub id: u64,
    /// The log that the segment belongs to.
    pub log_id: u128,
    /// Every revision below this one was given out before the segment began.
    pub next_revision: Revision,
    /// The last change before the segment.
    pub before: Position,
    /// The oldest segment that the log needed when this one began.
    pub oldest: u64,
    /// Where the frames of the previous segment end; 0 if there is none.
    pub previous_end: u32,
    /// The size of the file; 0 if the header does not say.
    pub bytes: u32,
}

impl Header {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER as usize];
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, &VERSION.to_le_bytes());
        put(&mut out, 12, &self.previous_end.to_le_bytes());
        put(&mut out, 16, &self.id.to_le_bytes());
        put(&mut out, 24, &self.log_id.to_le_bytes());
        put(&mut out, 40, &self.next_revision.0.to_le_bytes());
        put(&mut out, 48, &self.before.revision.0.to_le_bytes());
        put(&mut out, 56, &self.oldest.to_le_bytes());
        put(&mut out, 64, &self.bytes.to_le_bytes());
        // A write has at most two changes.
        out[80] = self.before.index as u8;
        let crc = crc32fast::hash(&out[..HEADER_CRC_AT]);
        put(&mut out, HEADER_CRC_AT, &crc.to_le_bytes());
        out
    }

    /// The format version of an intact header that a newer program wrote.
    pub fn newer(bytes: &[u8]) -> Option<u32> {
        let body = bytes.get(..HEADER_CRC_AT)?;
        let whole =
            body.starts_with(MAGIC) && u32_at(bytes, HEADER_CRC_AT)? == crc32fast::hash(body);
        u32_at(body, 8).filter(|version| whole && *version > VERSION)
    }

    /// The header, if it is intact and belongs to segment `id` of this log.
    pub fn decode(bytes: &[u8], id: u64, log_id: u128) -> Option<Self> {
        let body = bytes.get(..HEADER_CRC_AT)?;
        if !body.starts_with(MAGIC)
            || u32_at(bytes, HEADER_CRC_AT)? != crc32fast::hash(body)
            || u32_at(body, 8)? != VERSION
        {
            return None;
        }
        let header = Self {
            id: u64_at(body, 16)?,
            log_id: u128_at(body, 24)?,
            next_revision: Revision(u64_at(body, 40)?),
            before: Position { revision: Revision(u64_at(body, 48)?), index: u32::from(body[80]) },
            oldest: u64_at(body, 56)?,
            previous_end: u32_at(body, 12)?,
            bytes: u32_at(body, 64)?,
        };
        (header.id == id && header.log_id == log_id).then_some(header)
    }
}

/// An open segment file, named by its id.
#[derive(Debug)]
pub(super) struct Segment {
    pub id: u64,
    /// The size of the file.
    pub bytes: u32,
    /// The seed of its frames' checksums.
    pub seed: u32,
    pub file: File,
}

impl Segment {
    pub fn new(id: u64, log_id: u128, file: File, bytes: u32) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&log_id.to_le_bytes());
        hasher.update(&id.to_le_bytes());
        Self { id, bytes, seed: hasher.finalize(), file }
    }

    pub fn path(dir: &Path, id: u64) -> PathBuf {
        dir.join(format!("log-{id:016x}.seg"))
    }

    /// The id in a segment's file name.
    pub fn id_of(name: &str) -> Option<u64> {
        let digits = name.strip_prefix("log-")?.strip_suffix(".seg")?;
        let canonical =
            digits.len() == 16 && digits.bytes().all(|b| b"0123456789abcdef".contains(&b));
        u64::from_str_radix(digits, 16).ok().filter(|_| canonical)
    }

    /// The frame of `len` bytes at `offset`. Nothing is verified.
    pub fn read(&self, offset: u32, len: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, u64::from(offset))?;
        Ok(bytes)
    }

    /// Frames from `at` to `end`, in order.
    pub fn frames(&self, at: u32, end: u32) -> Frames<'_> {
        Frames { segment: self, at, end: end.min(self.bytes), window: Vec::new(), start: at }
    }

    /// Searches after damage, at every place: whether any valid frame at or after `from` satisfies `such`.
    pub fn has_frame_from(&self, from: u32, such: impl Fn(&Frame<'_>) -> bool) -> io::Result<bool> {
        let from = from.next_multiple_of(ALIGN);
        if from >= self.bytes {
            return Ok(false);
        }
        let bytes = self.read(from, self.bytes - from)?;
        Ok(frame::Search::new(&bytes, self.seed).any(such))
    }
}

/// Reads frames one after another through a window.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    segment: &'a Segment,
    at: u32,
    end: u32,
    window: Vec<u8>,
    /// The offset of the window in the segment.
    start: u32,
}

impl Frames<'_> {
    /// The offset of the next frame, or the first place without a valid one.
    pub fn at(&self) -> u32 {
        self.at
    }

    /// The next frame and its offset; `None` at the end, or where there is no valid frame.
    pub fn next(&mut self) -> io::Result<Option<(u32, Frame<'_>)>> {
        if self.end.saturating_sub(self.at) < frame::HEAD as u32 {
            return Ok(None);
        }
        self.fill(frame::HEAD as u32)?;
        let Some(len) = frame::claimed_len(self.rest()) else { return Ok(None) };
        if len > self.end - self.at {
            return Ok(None);
        }
        self.fill(len)?;
        let offset = self.at;
        let begin = (self.at - self.start) as usize;
        let Some(frame) = frame::parse(&self.window[begin..], self.segment.seed) else {
            return Ok(None);
        };
        self.at = self.at.saturating_add(frame::padded(len));
        Ok(Some((offset, frame)))
    }

    fn rest(&self) -> &[u8] {
        &self.window[(self.at - self.start) as usize..]
    }

    /// Makes the window hold `want` bytes from `at` on. The caller knows that they exist.
    fn fill(&mut self, want: u32) -> io::Result<()> {
        let held = self.start as usize + self.window.len();
        if self.at >= self.start && (self.at as usize + want as usize) <= held {
            return Ok(());
        }
        let take = WINDOW.max(want).min(self.end - self.at);
        self.window.resize(take as usize, 0);
        self.start = self.at;
        self.segment.file.read_exact_at(&mut self.window, u64::from(self.at))
    }
}
