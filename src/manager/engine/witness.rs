//! The witness file, in which a node remembers how far a shared store had come. So at its next start it notices a store
//! that went backwards or was replaced.
//!
//! One file serves several stores, and several processes in one directory. Each store has its own entry. Before an
//! entry is written, it is merged with what another process wrote.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::{
    lease::{Epoch, Nonce, Revision},
    store::Witness,
};

/// The version of the file's format.
const VERSION: u32 = 1;

/// One store's entry in the file.
#[derive(Clone, Debug)]
pub(in crate::manager::engine) struct WitnessFile {
    path: PathBuf,
    kind: &'static str,
    place: String,
    /// One write at a time: the last write at a stop may overlap with an earlier one.
    saving: Arc<Mutex<()>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Content {
    version: u32,
    stores: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    kind: String,
    place: String,
    /// 32 hexadecimal digits, because JSON readers round numbers of this size.
    identity: String,
    epoch: u16,
    highest: u64,
}

impl Entry {
    fn witness(&self) -> Option<Witness> {
        let identity = Nonce(u128::from_str_radix(&self.identity, 16).ok()?);
        Some(Witness { identity, epoch: Epoch(self.epoch), highest: Revision(self.highest) })
    }
}

/// Merges two observations of the store: within one epoch, the one that saw more wins.
fn join(there: Option<Witness>, seen: Witness) -> Witness {
    match there {
        Some(there) if there.identity == seen.identity && there.epoch == seen.epoch => {
            Witness { highest: there.highest.max(seen.highest), ..seen }
        }
        _ => seen,
    }
}

impl WitnessFile {
    /// The entry of a store, by its kind and its place, such as a server and a bucket.
    pub(in crate::manager::engine) fn new(path: &Path, kind: &'static str, place: String) -> Self {
        Self { path: path.to_owned(), kind, place, saving: Arc::default() }
    }

    /// What was remembered of the store. `None` when it is seen for the first time.
    pub(in crate::manager::engine) fn read(&self) -> anyhow::Result<Option<Witness>> {
        let content = self.content().with_context(|| {
            let path = self.path.display();
            format!(
                "{path} (node.witness) cannot be used; without it a store that went backwards is \
                     not noticed at the start: repair it, or remove it to do without"
            )
        })?;
        let mine = content.stores.iter().find(|entry| self.is_mine(entry));
        mine.map(|entry| {
            let witness = entry.witness();
            witness.with_context(|| format!("{}: {:?}", self.path.display(), entry.identity))
        })
        .transpose()
    }

    /// Checks that the file can be written. Without it, the coordinator would not notice a store that went backwards.
    pub(in crate::manager::engine) fn check(&self) -> anyhow::Result<()> {
        let tried = self.make_part().and_then(|(part, _)| fs::remove_file(part));
        tried.with_context(|| {
            format!(
                "{} (node.witness) cannot be written: name a file in a directory of this process, or set it to \"\" to \
                 do without",
                self.path.display()
            )
        })
    }

    /// Writes what was seen of the store, durably. Does nothing if the file already has it. What is seen of a frozen
    /// store does not replace the entry: the store must be frozen at the next start too.
    pub(in crate::manager::engine) fn save(
        &self,
        seen: Witness,
        frozen: bool,
    ) -> anyhow::Result<()> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut content = self.content()?;
        let there = content.stores.iter().find(|entry| self.is_mine(entry));
        let known = there.and_then(Entry::witness);
        let same = |known: Witness| (known.identity, known.epoch) == (seen.identity, seen.epoch);
        if frozen && !known.is_some_and(same) {
            return Ok(());
        }
        let joined = join(known, seen);
        let entry = Entry {
            kind: self.kind.to_owned(),
            place: self.place.clone(),
            identity: joined.identity.to_string(),
            epoch: joined.epoch.0,
            highest: joined.highest.0,
        };
        if there == Some(&entry) {
            return Ok(());
        }
        content.stores.retain(|other| !self.is_mine(other));
        content.stores.push(entry);
        self.replace(&content)
            .with_context(|| format!("{} (node.witness) cannot be written", self.path.display()))
    }

    fn is_mine(&self, entry: &Entry) -> bool {
        entry.kind == self.kind && entry.place == self.place
    }

    fn content(&self) -> anyhow::Result<Content> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Content { version: VERSION, stores: Vec::new() });
            }
            Err(error) => return Err(error.into()),
        };
        let content: Content = serde_json::from_slice(&bytes)?;
        anyhow::ensure!(content.version == VERSION, "it has version {}", content.version);
        Ok(content)
    }

    /// Replaces the file by a rename, so that readers see either the old or the new content.
    fn replace(&self, content: &Content) -> io::Result<()> {
        let (part, mut file) = self.make_part()?;
        file.write_all(&serde_json::to_vec_pretty(content)?)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&part, &self.path)?;
        fs::File::open(self.dir())?.sync_all()
    }

    fn dir(&self) -> &Path {
        let dir = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        dir.unwrap_or(Path::new("."))
    }

    /// Opens the temporary file that later replaces the witness file.
    fn make_part(&self) -> io::Result<(PathBuf, fs::File)> {
        fs::create_dir_all(self.dir())?;
        // Several processes may share the witness file, so each has its own temporary file.
        let part = self.path.with_extension(format!("{}.part", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        Ok((part, file))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn seen(identity: u128, epoch: u16, highest: u64) -> Witness {
        Witness { identity: Nonce(identity), epoch: Epoch(epoch), highest: Revision(highest) }
    }

    #[test]
    fn each_store_has_its_entry_and_the_highest_is_kept_within_a_generation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/witness.json");
        let a = WitnessFile::new(&path, "nats", "nats://a:4222 tenure".into());
        let b = WitnessFile::new(&path, "dynamodb", "eu-central-1 tenure".into());
        assert_eq!(a.read().unwrap(), None);
        a.save(seen(1, 0, 10), false).unwrap();
        b.save(seen(u128::MAX, 1023, 1 << 60), false).unwrap();
        assert_eq!(a.read().unwrap(), Some(seen(1, 0, 10)));
        assert_eq!(b.read().unwrap(), Some(seen(u128::MAX, 1023, 1 << 60)));
        // Another process of the same store saw less.
        a.save(seen(1, 0, 7), false).unwrap();
        assert_eq!(a.read().unwrap(), Some(seen(1, 0, 10)));
        // The store is frozen: its state is not remembered.
        a.save(seen(9, 0, 99), true).unwrap();
        assert_eq!(a.read().unwrap(), Some(seen(1, 0, 10)));
        // The epoch was raised: the entry starts again.
        a.save(seen(2, 1, 3), false).unwrap();
        assert_eq!(a.read().unwrap(), Some(seen(2, 1, 3)));
        assert!(b.read().unwrap().is_some());
        let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn it_is_known_at_once_whether_it_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below/witness.json");
        let file = WitnessFile::new(&path, "nats", "x".into());
        file.check().unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        file.save(seen(1, 0, 1), false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let below_a_file = path.join("witness.json");
        let refused = WitnessFile::new(&below_a_file, "nats", "x".into()).check().unwrap_err();
        assert!(format!("{refused:#}").contains("node.witness"), "{refused:#}");
    }

    #[test]
    fn what_is_known_is_not_written_again_and_what_is_no_witness_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness.json");
        let file = WitnessFile::new(&path, "nats", "x".into());
        file.save(seen(1, 0, 1), true).unwrap();
        assert_eq!(file.read().unwrap(), None);
        file.save(seen(1, 0, 1), false).unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        file.save(seen(1, 0, 1), false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        for content in ["", "{", "{\"version\": 2, \"stores\": []}"] {
            fs::write(&path, content).unwrap();
            let refused = format!("{:#}", file.read().unwrap_err());
            assert!(refused.contains("node.witness") && refused.contains("remove it"), "{refused}");
        }
    }
}
