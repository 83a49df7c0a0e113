//! Why a store does not open.

use std::{io, path::PathBuf};

use crate::lease::LevelError;

/// What to do when the directory is lost.
const RESTORE: &str = "keep the directory as evidence, and restore a backup into an empty one: \
                       tenure restore --file FILE --raise-epoch";

/// Why [`EmbeddedStore::open`](super::EmbeddedStore::open) refused. Nothing was changed, except that an empty or
/// missing directory may have been created.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedOpenError {
    /// Another process has the store open.
    #[error(
        "{} is in use by another process, and only one may use a store: stop that process, or name \
         another directory",
        .dir.display()
    )]
    Locked { dir: PathBuf },
    #[error(
        "{} has a part of a backup: its restore was cut off. Move it away and restore again",
        .dir.display()
    )]
    HalfRestored { dir: PathBuf },
    /// The directory holds files but no store.
    #[error(
        "{} holds files (such as {found:?}) but no store; name an empty or missing directory",
        .dir.display()
    )]
    Foreign { dir: PathBuf, found: String },
    /// A file or directory may not be read or written.
    #[error("no permission for {}: {source}; check its owner and mode", .path.display())]
    Permission { path: PathBuf, source: io::Error },
    /// META is damaged, or missing beside a log.
    #[error("{} {why}; {RESTORE}", .path.display())]
    MetaCorrupt {
        path: PathBuf,
        /// What is wrong with the file.
        why: &'static str,
    },
    #[error(
        "{} has format version {found}; this program knows up to {known}: use a newer program",
        .path.display()
    )]
    NewerVersion {
        /// The file with the newer version.
        path: PathBuf,
        found: u32,
        /// The newest version that this program can read.
        known: u32,
    },
    /// Another version of the program had the store.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// The log is damaged where it once was durable. Opening it would lose writes that were reported committed.
    #[error(
        "{} is damaged at byte {offset} ({why}); it held writes that were reported committed; {RESTORE}",
        .file.display()
    )]
    Corrupt { file: PathBuf, offset: u64, why: &'static str },
    /// MARK is damaged. Without it, a log that lost its end could not be told from a complete one.
    #[error(
        "{} is damaged; it records up to where the log was durable; {RESTORE}; or, if you are sure \
         that nothing else on this disk is damaged, remove this file and start again",
        .path.display()
    )]
    MarkCorrupt { path: PathBuf },
    /// The directory is on a network file system, where locks and syncs are not reliable.
    #[error(
        "{} is on {kind}, a network file system: locks and syncs may not hold; use a local disk",
        .dir.display()
    )]
    Network { dir: PathBuf, kind: &'static str },
    /// There is no room for a file that the store needs when it opens.
    #[error("no room for {}: {source}; make room on the disk and start again", .path.display())]
    Full { path: PathBuf, source: io::Error },
    /// Any other error of the system.
    #[error(
        "{}: {source}; if the disk has failed, {RESTORE}",
        .path.display()
    )]
    Io { path: PathBuf, source: io::Error },
}

impl EmbeddedOpenError {
    /// Adds the path to an error of the system.
    pub(super) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { path, source }
            }
            _ => Self::Io { path, source },
        }
    }
}
