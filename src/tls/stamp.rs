//! What tells a file from the file that was there before.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

/// Device, inode, length, and the times of the last changes of the content and of the inode.
pub(super) type Stamp = [i64; 7];

pub(super) fn stamp(path: &Path) -> io::Result<Stamp> {
    let found = fs::metadata(path)?;
    let [dev, ino, len] = [found.dev(), found.ino(), found.len()].map(u64::cast_signed);
    // Owner and mode change the time of the last change of the inode.
    let [modified, changed] = [found.mtime(), found.ctime()];
    Ok([dev, ino, len, modified, found.mtime_nsec(), changed, found.ctime_nsec()])
}
