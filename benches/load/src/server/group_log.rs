//! A log that makes its entries durable in groups: what a durable write needs at the least, and no more.
//!
//! Guarantees
//! - [`Log::append`] returns after an fdatasync that began when the whole entry was in the file.
//!
//! Does not guarantee
//! - That anyone can read the log: at the end of the file it goes on at the beginning.

use std::fs::File;
use std::io;
use std::iter::once;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use actix_web::web::Bytes;
use anyhow::{Context as _, Result};
use tokio::sync::oneshot;

/// An entry, and who waits for it.
struct Entry {
    bytes: Bytes,
    durable: oneshot::Sender<()>,
}

/// The log. A thread of its own writes it.
#[derive(Debug)]
pub struct Log {
    /// No longer than there are connections: each waits for its entry.
    queue: Sender<Entry>,
}

impl Log {
    /// Makes the file, which never has another size: a sync then writes data alone, as in a preallocated log.
    pub fn create(path: &Path, size: usize) -> Result<Self> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        file.write_all_at(&vec![0; size], 0)?;
        file.sync_all()?;
        let (queue, entries) = channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            if let Err(error) = write(&file, size, &entries) {
                eprintln!("the log cannot be written: {error}");
            }
        })?;
        Ok(Self { queue })
    }

    /// Appends an entry and waits until it is durable.
    pub async fn append(&self, bytes: Bytes) -> Result<()> {
        let (durable, wait) = oneshot::channel();
        let sent = self.queue.send(Entry { bytes, durable });
        sent.ok().context("the log is not written any more")?;
        wait.await.context("the log cannot be written")
    }
}

/// Writes what has come meanwhile as one group, syncs, and tells those who wait.
fn write(file: &File, size: usize, entries: &Receiver<Entry>) -> io::Result<()> {
    let (mut at, mut group, mut waiting) = (0, Vec::new(), Vec::new());
    while let Ok(first) = entries.recv() {
        for entry in once(first).chain(entries.try_iter()) {
            group.extend_from_slice(&entry.bytes);
            waiting.push(entry.durable);
        }
        if at + group.len() > size {
            at = 0;
        }
        file.write_all_at(&group, at as u64)?;
        file.sync_data()?;
        at += group.len();
        group.clear();
        for durable in waiting.drain(..) {
            // Who waited may be gone.
            let _ = durable.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_appended_is_in_the_file_which_keeps_its_size() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log");
        let log = Log::create(&path, 8).unwrap();
        log.append("abc".into()).await.unwrap();
        log.append("def".into()).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdef\0\0");
        log.append("ghi".into()).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"ghidef\0\0");
    }
}
