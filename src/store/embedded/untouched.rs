//! A disk that stays as it is.

use std::{fs::File, io, path::Path};

use super::disk::Disk;

/// Leaves undone what it is asked for. Recovery on it judges the log and changes nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct UntouchedDisk;

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the store is only checked"))
}

impl Disk for UntouchedDisk {
    fn create(&self, _: &Path, _: u32) -> io::Result<File> {
        refused()
    }

    fn put(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _: u64, _: &File, _: &[u8], _: u32) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _: u64, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
