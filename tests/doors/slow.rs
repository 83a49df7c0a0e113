//! Test-only: a disk whose syncs take long.
//!
//! `TENURE_TEST_SYNC_MS=1000` makes each sync of a segment take a second longer.

use std::{fs::File, io, path::Path, time::Duration};

use super::disk::{Disk, RealDisk};

const VARIABLE: &str = "TENURE_TEST_SYNC_MS";

/// The real disk, but slow.
#[derive(Debug)]
pub(super) struct SlowDisk(Duration);

impl SlowDisk {
    /// `None` when the environment asks for none.
    ///
    /// # Panics
    /// When it asks for what cannot be.
    pub fn from_environment() -> Option<Self> {
        let told = std::env::var(VARIABLE).ok()?;
        let ms = told.parse().unwrap_or_else(|_| panic!("{VARIABLE}={told}"));
        Some(Self(Duration::from_millis(ms)))
    }
}

impl Disk for SlowDisk {
    fn create(&self, path: &Path, bytes: u32) -> io::Result<File> {
        RealDisk.create(path, bytes)
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealDisk.put(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn write(&self, id: u64, file: &File, bytes: &[u8], at: u32) -> io::Result<()> {
        RealDisk.write(id, file, bytes, at)
    }

    #[expect(clippy::disallowed_methods, reason = "only the writer's thread syncs")]
    fn sync(&self, id: u64, file: &File) -> io::Result<()> {
        std::thread::sleep(self.0);
        RealDisk.sync(id, file)
    }

    fn sync_names(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_names(dir)
    }
}
