//! A disk on a file system in memory. It knows what is durable, and stops at any step of any operation.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::store::embedded::{
    disk::Disk,
    mark::{MARK, MARK_ID},
    segment::Segment,
};

const SECTOR: usize = 512;

/// What a power failure leaves of the bytes that were not synced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaves {
    Everything,
    Nothing,
    /// Some sectors of any write.
    Sectors,
    /// All writes up to one, which is torn.
    Beginning,
}

/// A file: its durable bytes, and the writes that the system has not written back yet.
#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    unsynced: Vec<(u64, usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Naming {
    Set(String, u64),
    Unset(String),
    Rename(String, String),
}

#[derive(Debug)]
pub(super) struct DiskState {
    dir: PathBuf,
    rng: StdRng,
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsynced_names: Vec<Naming>,
    /// Counts inodes and writes.
    next: u64,
    /// How many steps remain until everything stops.
    left: u64,
    pub stopped: bool,
    /// How many syncs succeed before one fails.
    pub good_syncs: Option<u64>,
    pub failed: bool,
    /// A sync does nothing, and reports success.
    pub lies: bool,
    /// How many files can still be made.
    pub room: Option<u32>,
}

/// Its files are real ones. They show what the system's cache would show.
#[derive(Debug)]
pub(super) struct SimDisk(Mutex<DiskState>);

fn stopped() -> io::Error {
    io::Error::other("simulated: nothing is written any more")
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

impl SimDisk {
    pub fn new(dir: &Path, seed: u64) -> Self {
        Self(Mutex::new(DiskState {
            dir: dir.to_owned(),
            rng: StdRng::seed_from_u64(seed),
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            next: 1,
            left: u64::MAX,
            stopped: false,
            good_syncs: None,
            failed: false,
            lies: false,
            room: None,
        }))
    }

    pub fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap()
    }
}

impl DiskState {
    /// Starts a new process that may make this many steps.
    pub fn start(&mut self, steps: u64) {
        self.left = steps;
        (self.stopped, self.failed) = (false, false);
        (self.good_syncs, self.room) = (None, None);
    }

    fn step(&mut self) -> io::Result<()> {
        self.stopped |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        if self.stopped { Err(stopped()) } else { Ok(()) }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn sync_names(&mut self) {
        self.durable_names = self.names.clone();
        self.unsynced_names.clear();
    }

    fn set_name(&mut self, name: String, inode: u64) {
        self.names.insert(name.clone(), inode);
        self.unsynced_names.push(Naming::Set(name, inode));
    }

    fn unset_name(&mut self, name: &str) {
        self.unsynced_names.push(Naming::Unset(name.to_owned()));
        self.names.remove(name);
    }

    fn write(&mut self, inode: u64, file: &File, bytes: &[u8], at: usize) -> io::Result<()> {
        self.step()?;
        // A sector is written as a whole or not at all, also into the system's cache.
        let cut = at + self.rng.random_range(0..=bytes.len());
        let half = (cut / SECTOR * SECTOR).saturating_sub(at);
        self.cache(inode, file, &bytes[..half], at)?;
        self.step()?;
        self.cache(inode, file, &bytes[half..], at + half)
    }

    fn cache(&mut self, inode: u64, file: &File, bytes: &[u8], at: usize) -> io::Result<()> {
        let number = self.number();
        let inode = self.inodes.get_mut(&inode).expect("an inode");
        inode.unsynced.push((number, at, bytes.to_vec()));
        file.write_all_at(bytes, at as u64)
    }

    fn sync(&mut self, inode: u64) -> io::Result<()> {
        self.step()?;
        let fails = self.good_syncs == Some(0);
        self.good_syncs = self.good_syncs.map(|left| left.saturating_sub(1));
        let Self { inodes, rng, .. } = self;
        let inode = inodes.get_mut(&inode).expect("an inode");
        if fails {
            // Some of it was written, and the system takes the rest for written too.
            let some = |_| rng.random_bool(0.5);
            inode.durable = after(inode, some);
            inode.unsynced.clear();
            self.failed = true;
            return Err(io::Error::other("simulated: EIO"));
        }
        if self.lies {
            return self.step();
        }
        inode.durable = after(inode, |_| true);
        inode.unsynced.clear();
        self.step()
    }

    fn make(&mut self, path: &Path, bytes: &[u8]) -> io::Result<(u64, File)> {
        self.step()?;
        let inode = self.number();
        self.inodes.insert(inode, Inode::default());
        self.set_name(name_of(path), inode);
        // A new file takes the name, so that handles of an old one do not see it.
        let _ = fs::remove_file(path);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        self.write(inode, &file, bytes, 0)?;
        self.sync(inode)?;
        Ok((inode, file))
    }

    /// What a power failure at this moment leaves, as the new content of the directory.
    pub fn lose_power(&mut self, leaves: Leaves) {
        let names_kept = match leaves {
            Leaves::Everything => self.unsynced_names.len(),
            Leaves::Nothing => 0,
            _ => self.rng.random_range(0..=self.unsynced_names.len()),
        };
        let mut names = self.durable_names.clone();
        for naming in self.unsynced_names.drain(..).take(names_kept) {
            match naming {
                Naming::Set(name, inode) => drop(names.insert(name, inode)),
                Naming::Unset(name) => drop(names.remove(&name)),
                Naming::Rename(from, to) => {
                    let inode = names.remove(&from).expect("a file");
                    names.insert(to, inode);
                }
            }
        }
        let last = self.rng.random_range(0..=self.next);
        let Self { inodes, rng, .. } = self;
        for inode in inodes.values_mut() {
            let bytes = after(inode, |number| match leaves {
                Leaves::Everything => true,
                Leaves::Nothing => false,
                Leaves::Sectors => rng.random_bool(0.6),
                Leaves::Beginning if number == last => rng.random_bool(0.6),
                Leaves::Beginning => number < last,
            });
            *inode = Inode { durable: bytes, unsynced: Vec::new() };
        }
        inodes.retain(|inode, _| names.values().any(|used| used == inode));
        for entry in fs::read_dir(&self.dir).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (name, inode) in &names {
            fs::write(self.dir.join(name), &self.inodes[inode].durable).unwrap();
        }
        (self.names, self.durable_names) = (names.clone(), names);
    }
}

/// The content of a file if only those sectors of writes are written for which `kept`, given the number of the
/// write, returns `true`. Another sector keeps its old content, but later writes may change it.
fn after(inode: &Inode, mut kept: impl FnMut(u64) -> bool) -> Vec<u8> {
    let mut bytes = inode.durable.clone();
    for (number, at, new) in &inode.unsynced {
        let mut from = *at;
        while from < at + new.len() {
            let to = ((from / SECTOR + 1) * SECTOR).min(at + new.len());
            if kept(*number) {
                if bytes.len() < to {
                    bytes.resize(to, 0);
                }
                bytes[from..to].copy_from_slice(&new[from - at..to - at]);
            }
            from = to;
        }
    }
    bytes
}

impl SimDisk {
    fn inode(state: &DiskState, id: u64) -> u64 {
        let name =
            if id == MARK_ID { MARK.to_owned() } else { name_of(&Segment::path(&state.dir, id)) };
        state.names[&name]
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &Path, bytes: u32) -> io::Result<File> {
        let mut state = self.state();
        match &mut state.room {
            Some(0) => return Err(io::ErrorKind::StorageFull.into()),
            Some(room) => *room -= 1,
            None => {}
        }
        let made = state.make(path, &vec![0; bytes as usize]);
        match made {
            Ok((_, file)) => {
                state.step()?;
                state.sync_names();
                Ok(file)
            }
            Err(error) => {
                if !state.stopped {
                    let _ = fs::remove_file(path);
                    state.unset_name(&name_of(path));
                }
                Err(error)
            }
        }
    }

    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.state().make(path, bytes).map(drop)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        let inode = state.names.remove(&name_of(from)).expect("a file");
        state.names.insert(name_of(to), inode);
        state.unsynced_names.push(Naming::Rename(name_of(from), name_of(to)));
        fs::rename(from, to)?;
        state.step()?;
        state.sync_names();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.unset_name(&name_of(path));
        fs::remove_file(path)
    }

    fn write(&self, id: u64, file: &File, bytes: &[u8], at: u32) -> io::Result<()> {
        let mut state = self.state();
        let inode = Self::inode(&state, id);
        state.write(inode, file, bytes, at as usize)
    }

    fn sync(&self, id: u64, _: &File) -> io::Result<()> {
        let mut state = self.state();
        let inode = Self::inode(&state, id);
        state.sync(inode)
    }

    fn sync_names(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.sync_names();
        Ok(())
    }
}
