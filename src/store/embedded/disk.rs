//! The operations that the engine needs of the disk. Tests replace them to inject failures and lost writes.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

/// How many bytes are written at once when a segment is made.
const BLOCK: usize = 1 << 20;

/// Changes of files. Reads use the files directly.
pub(super) trait Disk: Debug + Send + Sync {
    /// Makes a file of `bytes` zeros, and makes it and its name durable. Leaves nothing behind if it fails.
    ///
    /// The zeros are really written. In blocks that are only reserved, each first sync would also have to change
    /// the file's extent map, which makes it several times slower.
    fn create(&self, path: &Path, bytes: u32) -> io::Result<File>;

    /// Makes a small file with this content, and makes the content durable. The name may not be durable.
    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file within its directory, durably.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. The removal is durable at some later time.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Writes all of `bytes` into existing blocks of segment `id`.
    fn write(&self, id: u64, file: &File, bytes: &[u8], at: u32) -> io::Result<()>;

    /// Makes what was written to segment `id` durable.
    fn sync(&self, id: u64, file: &File) -> io::Result<()>;

    /// Makes the names in a directory durable, including those that an earlier process gave.
    fn sync_names(&self, dir: &Path) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path, bytes: u32) -> io::Result<File> {
        let made = write_zeros(path, bytes);
        if made.is_err() {
            // A full disk thereby gets back the room that the attempt took. The file is not needed.
            let _ = fs::remove_file(path);
        }
        made
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        sync_parent(to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn write(&self, _: u64, file: &File, bytes: &[u8], at: u32) -> io::Result<()> {
        file.write_all_at(bytes, u64::from(at))
    }

    fn sync(&self, _: u64, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_names(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

fn write_zeros(path: &Path, bytes: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let zeros = vec![0; BLOCK];
    let mut at = 0;
    while at < u64::from(bytes) {
        let take = (u64::from(bytes) - at).min(BLOCK as u64);
        // `take` is at most BLOCK.
        file.write_all_at(&zeros[..take as usize], at)?;
        at += take;
    }
    file.sync_all()?;
    sync_parent(path)?;
    Ok(file)
}

/// Makes the names in the directory of `path` durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}
