//! A disk that can be full, that can fail, and that can lose what was not synced.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rand::{RngExt, rngs::StdRng};

use crate::store::embedded::{
    disk::Disk,
    mark::{MARK, MARK_ID},
    segment::Segment,
};

/// What a crash leaves of the bytes that were not synced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaves {
    Everything,
    Nothing,
    SomeSectors,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    /// How many segments can still be made; `None` means any number.
    pub room: Option<u32>,
    pub fail_writes: bool,
    /// There is no room for a write in place, as on a copy-on-write file system.
    pub no_room_in_place: bool,
    pub fail_syncs: bool,
    pub sync_takes: Duration,
    /// The durable bytes, by segment id.
    durable: BTreeMap<u64, Vec<u8>>,
    unsynced: Vec<(u64, u32, Vec<u8>)>,
}

#[derive(Debug, Default)]
pub(super) struct FaultyDisk(Mutex<Faults>);

impl FaultyDisk {
    /// A disk with the segments in `dir`.
    pub fn of(dir: &Path) -> Arc<Self> {
        let disk = Self::default();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if let Some(id) = id(&path) {
                disk.faults().durable.insert(id, fs::read(path).unwrap());
            }
        }
        Arc::new(disk)
    }

    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap()
    }

    /// Makes `to` what `from` would be after a power failure now.
    pub fn crash(&self, from: &Path, to: &Path, leaves: Leaves, rng: &mut StdRng) {
        let faults = self.faults();
        let mut files = faults.durable.clone();
        // A sector is written as a whole or not at all.
        let mut kept = BTreeMap::new();
        for (id, at, bytes) in &faults.unsynced {
            let Some(file) = files.get_mut(id) else { continue };
            for (place, byte) in (*at as usize..).zip(bytes) {
                let keep = kept.entry((*id, place / 512)).or_insert_with(|| match leaves {
                    Leaves::Everything => true,
                    Leaves::Nothing => false,
                    Leaves::SomeSectors => rng.random_bool(0.6),
                });
                if *keep {
                    file[place] = *byte;
                }
            }
        }
        drop(faults);
        fs::create_dir_all(to).unwrap();
        fs::copy(from.join("META"), to.join("META")).unwrap();
        for (id, bytes) in files {
            fs::write(path(to, id), bytes).unwrap();
        }
    }
}

fn id(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    if name == MARK { Some(MARK_ID) } else { Segment::id_of(name) }
}

fn path(dir: &Path, id: u64) -> PathBuf {
    if id == MARK_ID { dir.join(MARK) } else { Segment::path(dir, id) }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path, bytes: u32) -> io::Result<File> {
        let mut faults = self.faults();
        match &mut faults.room {
            _ if path.ends_with(MARK) => {}
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(room) => *room -= 1,
            None => {}
        }
        faults.durable.insert(id(path).unwrap(), vec![0; bytes as usize]);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(u64::from(bytes))?;
        Ok(file)
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut faults = self.faults();
        if let (Some(from), Some(to)) = (id(from), id(to)) {
            let bytes = faults.durable.remove(&from).unwrap();
            faults.durable.insert(to, bytes);
        }
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults().durable.remove(&id(path).unwrap());
        fs::remove_file(path)
    }

    fn write(&self, id: u64, file: &File, bytes: &[u8], at: u32) -> io::Result<()> {
        let mut faults = self.faults();
        if faults.fail_writes {
            return Err(io::Error::other("injected: EIO"));
        }
        if faults.no_room_in_place {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let news = |(of, place, new): &(u64, u32, Vec<u8>)| {
            *of == id && *place == 0 && at > 0 && !faults.durable[of].starts_with(new)
        };
        assert!(!faults.unsynced.iter().any(news), "a header is durable before any frame");
        faults.unsynced.push((id, at, bytes.to_vec()));
        file.write_all_at(bytes, u64::from(at))
    }

    fn sync(&self, id: u64, _: &File) -> io::Result<()> {
        // Long enough that most crashes happen while a group is being synced.
        std::thread::park_timeout(self.faults().sync_takes);
        let mut faults = self.faults();
        if faults.fail_syncs {
            return Err(io::Error::other("injected: EIO"));
        }
        let faults = &mut *faults;
        for (of, at, bytes) in faults.unsynced.extract_if(.., |(of, ..)| *of == id) {
            let file = faults.durable.get_mut(&of).unwrap();
            file[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
    fn sync_names(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
