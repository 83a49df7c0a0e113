//! Test-only: a disk at which the process kills itself, as `kill -9` would at that very moment.
//!
//! `TENURE_TEST_KILL_AT=what:n:when`. `what` is `write`, `sync`, `create`, `rename`, `remove`, `put`, `names`, or
//! `any`; the `n`-th such operation of the process, from 1, is the last; `when` is `before` it, `after` it,
//! or `torn`: in its middle, as far as it has one.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::process::{Signal, getpid, kill_process};

use super::disk::{Disk, RealDisk};

const SECTOR: usize = 512;
const VARIABLE: &str = "TENURE_TEST_KILL_AT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    Torn,
    After,
}

/// The real disk until the moment has come.
#[derive(Debug)]
pub(super) struct KillingDisk {
    what: String,
    when: When,
    /// How many operations are left until it has.
    left: AtomicU64,
}

impl KillingDisk {
    /// `None` when the environment asks for none.
    ///
    /// # Panics
    /// When it asks for what cannot be.
    pub fn from_environment() -> Option<Self> {
        let told = std::env::var(VARIABLE).ok()?;
        let fields: Vec<_> = told.split(':').collect();
        let [what, n, when] = fields[..] else { panic!("{VARIABLE}={told}") };
        let when = match when {
            "before" => When::Before,
            "torn" => When::Torn,
            "after" => When::After,
            _ => panic!("{VARIABLE}={told}"),
        };
        let left = n.parse().unwrap_or_else(|_| panic!("{VARIABLE}={told}"));
        Some(Self { what: what.to_owned(), when, left: AtomicU64::new(left) })
    }

    /// Does it, or not, or a part of it, and dies.
    fn at<T>(
        &self,
        what: &str,
        whole: impl FnOnce() -> io::Result<T>,
        part: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<T> {
        let counts = self.what == "any" || self.what == what;
        if !counts || self.left.fetch_sub(1, Relaxed) != 1 {
            return whole();
        }
        let done = match self.when {
            When::Before => Ok(()),
            When::Torn => part(),
            When::After => whole().map(drop),
        };
        die(done)
    }
}

/// Whatever became of it, nobody will know.
fn die(_: io::Result<()>) -> ! {
    loop {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

impl Disk for KillingDisk {
    fn create(&self, path: &Path, bytes: u32) -> io::Result<File> {
        let half = || RealDisk.create(path, bytes / 2).map(drop);
        self.at("create", || RealDisk.create(path, bytes), half)
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let half = || fs::write(path, &bytes[..bytes.len() / 2]);
        self.at("put", || RealDisk.put(path, bytes), half)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.at("rename", || RealDisk.rename(from, to), || fs::rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.at("remove", || RealDisk.remove(path), || Ok(()))
    }

    fn write(&self, id: u64, file: &File, bytes: &[u8], at: u32) -> io::Result<()> {
        // A sector gets there as a whole or not at all, also into the system's cache.
        let cut = (at as usize + bytes.len() / 2) / SECTOR * SECTOR;
        let half = || file.write_all_at(&bytes[..cut.saturating_sub(at as usize)], u64::from(at));
        self.at("write", || RealDisk.write(id, file, bytes, at), half)
    }

    fn sync(&self, id: u64, file: &File) -> io::Result<()> {
        self.at("sync", || RealDisk.sync(id, file), || Ok(()))
    }

    fn sync_names(&self, dir: &Path) -> io::Result<()> {
        self.at("names", || RealDisk.sync_names(dir), || Ok(()))
    }
}
