//! The file `MARK`, which records up to which position the log is durable.
//!
//! The mark is written after each sync and before any caller is answered. It is not synced itself, so it
//! costs one write into the page cache and no disk access. The mark is never ahead of the log: it names only
//! what was durable before it was written. So if anything up to that position is missing, the log is damaged:
//! the newest segment is gone or empty, the tail was cut or zeroed, or the last group has a flipped bit. After
//! the end of a process, the mark is up to date. After a power failure, it may be as old as the system's own
//! write-back, about half a minute, but not older than the newest segment, whose beginning is synced.
//!
//! ```text
//! 0 crc u32 | 4 end u32 | 8 segment u64 | 16 log_id u128 | zeros
//! ```

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    path::PathBuf,
};

use super::{
    directory::Directory,
    disk::Disk,
    error::EmbeddedOpenError,
    frame::{put, u32_at, u64_at, u128_at},
};

/// The name of the file in the store's directory.
pub(super) const MARK: &str = "MARK";
/// Its id in calls of the disk. Segments are numbered from 1.
pub(super) const MARK_ID: u64 = 0;
/// The length of the file, in bytes. The used part lies in one sector, so a write of it happens as a whole or not
/// at all.
const MARK_FILE_BYTES: u32 = 512;
const MARK_BYTES: usize = 32;

/// "Segment `segment` was durable up to `end`."
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Durable {
    pub segment: u64,
    pub end: u32,
}

impl Durable {
    pub fn encode(self, log_id: u128) -> [u8; MARK_BYTES] {
        let mut out = [0; MARK_BYTES];
        put(&mut out, 4, &self.end.to_le_bytes());
        put(&mut out, 8, &self.segment.to_le_bytes());
        put(&mut out, 16, &log_id.to_le_bytes());
        let crc = crc32fast::hash(&out[4..]);
        put(&mut out, 0, &crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], log_id: u128) -> Option<Self> {
        let body = bytes.get(..MARK_BYTES)?;
        let sound = u32_at(body, 0)? == crc32fast::hash(&body[4..]);
        let durable = Self { segment: u64_at(body, 8)?, end: u32_at(body, 4)? };
        (sound && u128_at(body, 16)? == log_id).then_some(durable)
    }
}

/// The mark's file. If it cannot be made, for instance on a full disk, the store works without it.
#[derive(Debug)]
pub(super) struct Mark {
    file: Option<File>,
    log_id: u128,
    /// What the file said when it was opened.
    pub found: Option<Durable>,
}

impl Mark {
    /// Opens the file, or makes it if it is missing.
    pub fn open(directory: &Directory, disk: &dyn Disk) -> Result<Self, EmbeddedOpenError> {
        let path = directory.path.join(MARK);
        let log_id = directory.meta.log_id;
        let (file, bytes) = read(&path).map_err(EmbeddedOpenError::at(&path))?;
        let found = Durable::decode(&bytes, log_id);
        // A file that was just made holds zeros. No crash leaves anything else.
        if found.is_none() && bytes.iter().any(|byte| *byte != 0) {
            return Err(EmbeddedOpenError::MarkCorrupt { path });
        }
        if file.is_some() && bytes.len() == MARK_FILE_BYTES as usize {
            return Ok(Self { file, log_id, found });
        }
        let made = disk.create(&path, MARK_FILE_BYTES);
        let file = made.inspect_err(warn_of_old_mark).ok();
        Ok(Self { file, log_id, found })
    }

    pub fn set(&self, durable: Durable, disk: &dyn Disk) {
        if let Some(file) = &self.file
            && let Err(error) = disk.write(MARK_ID, file, &durable.encode(self.log_id), 0)
        {
            warn_of_old_mark(&error);
        }
    }

    /// Records what is durable, and makes the record itself durable.
    pub fn set_durably(&self, durable: Durable, disk: &dyn Disk) {
        self.set(durable, disk);
        if let Some(file) = &self.file
            && let Err(error) = disk.sync(MARK_ID, file)
        {
            warn_of_old_mark(&error);
        }
    }
}

fn read(path: &PathBuf) -> io::Result<(Option<File>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, bytes)),
        Err(error) => return Err(error),
    };
    (&mut file).take(u64::from(MARK_FILE_BYTES) + 1).read_to_end(&mut bytes)?;
    Ok((Some(file), bytes))
}

/// A failed write stops nothing: an older mark is still true, and only detects less damage.
fn warn_of_old_mark(error: &io::Error) {
    tracing::warn!(%error, "cannot write the file MARK; after a crash, less damage is detected");
}
