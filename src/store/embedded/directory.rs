//! The store's directory: its lock, its `META`, and the files that may be in it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use super::{
    super::{Meta, SecretBytes, own_level},
    Fresh,
    disk::{Disk, sync_parent},
    error::EmbeddedOpenError,
    frame::{put, u16_at, u32_at, u64_at, u128_at},
    segment::Segment,
};
use crate::lease::{ClusterSecret, Epoch, Level, Nonce};

const META: &str = "META";
const META_TEMPORARY: &str = "META.tmp";
const LOCK: &str = "LOCK";
/// This file exists while a restore fills the store. It names the restore.
const RESTORING: &str = "RESTORING";
/// A directory that a fresh file system may have.
const LOST_AND_FOUND: &str = "lost+found";
/// What a node remembers of a shared store. By default the file is in the default directory of this store.
const WITNESS: &str = "witness.json";
/// Where a coordinator writes backups while it serves.
const BACKUPS: &str = "backup.sock";

const MAGIC: &[u8; 8] = b"tenureMT";
/// The version of the file of a store above the first level: it has one more byte, the level. A program that knows no
/// levels refuses it.
const VERSION: u32 = 2;
const OF_FIRST_LEVEL: u32 = 1;
/// The length of the file at the first level.
const META_BYTES: usize = 90;
/// Where the secret ends.
const LEVEL_AT: usize = 86;

/// The content of the file `META`.
#[derive(Clone)]
pub(super) struct MetaFile {
    pub identity: Nonce,
    /// Identifies the log. A restored backup gets a new identity and keeps this.
    pub log_id: u128,
    pub epoch: Epoch,
    /// What every program that opens the store can read.
    pub level: Level,
    pub created_ms: u64,
    pub secret: [u8; 32],
}

impl MetaFile {
    pub fn meta(&self) -> Meta {
        Meta {
            identity: self.identity,
            epoch: self.epoch,
            level: self.level,
            created_ms: self.created_ms,
            secret: ClusterSecret::new(&self.secret),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let leveled = self.level > Level::FIRST;
        let mut out = vec![0; META_BYTES + usize::from(leveled)];
        let end = out.len() - 4;
        let version = if leveled { VERSION } else { OF_FIRST_LEVEL };
        put(&mut out, 0, MAGIC);
        put(&mut out, 8, &version.to_le_bytes());
        put(&mut out, 12, &self.identity.0.to_le_bytes());
        put(&mut out, 28, &self.log_id.to_le_bytes());
        put(&mut out, 44, &self.epoch.0.to_le_bytes());
        put(&mut out, 46, &self.created_ms.to_le_bytes());
        put(&mut out, 54, &self.secret);
        if leveled {
            out[LEVEL_AT] = self.level.0;
        }
        let crc = crc32fast::hash(&out[..end]);
        put(&mut out, end, &crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self, EmbeddedOpenError> {
        let corrupt = |why| EmbeddedOpenError::MetaCorrupt { path: path.to_owned(), why };
        if !bytes.starts_with(MAGIC) {
            return Err(corrupt("is not the META of a store"));
        }
        let found = u32_at(bytes, 8).ok_or_else(|| corrupt("is too short"))?;
        let fits = [META_BYTES, META_BYTES + 1].contains(&bytes.len());
        let end = bytes.len().saturating_sub(4);
        let sound = fits && u32_at(bytes, end) == Some(crc32fast::hash(&bytes[..end]));
        // A file of the right length with a wrong checksum is damaged, whatever version it claims.
        if found > VERSION && (sound || !fits) {
            return Err(EmbeddedOpenError::NewerVersion {
                path: path.to_owned(),
                found,
                known: VERSION,
            });
        }
        let leveled = found == VERSION;
        if fits && !sound {
            return Err(corrupt("has a wrong checksum"));
        }
        if bytes.len() != META_BYTES + usize::from(leveled) {
            return Err(corrupt("has the wrong size"));
        }
        let level = if leveled { Level(bytes[LEVEL_AT]) } else { Level::FIRST };
        let fields = || {
            Some(Self {
                identity: Nonce(u128_at(bytes, 12)?),
                log_id: u128_at(bytes, 28)?,
                epoch: Epoch(u16_at(bytes, 44)?),
                level,
                created_ms: u64_at(bytes, 46)?,
                secret: *bytes.get(54..)?.first_chunk()?,
            })
        };
        fields().ok_or_else(|| corrupt("is too short"))
    }
}

/// A directory that this process has locked.
pub(super) struct Directory {
    pub path: PathBuf,
    pub meta: MetaFile,
    /// Held for the life of the store. The system releases it when the process ends, however it ends.
    pub lock: File,
}

impl Directory {
    /// Opens a store's directory. Creates a store if the directory is empty or missing.
    pub fn open(path: &Path, fresh: &Fresh, disk: &dyn Disk) -> Result<Self, EmbeddedOpenError> {
        if !path.exists() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.and_then(|()| sync_parent(path)).map_err(EmbeddedOpenError::at(path))?;
        }
        refuse_network(path)?;
        refuse_foreign(path)?;
        warn_of_others(path)?;
        let lock = take_lock(path)?;
        let mut meta = match read_meta(path)? {
            Some(meta) => meta,
            None => make_meta(path, fresh, disk)?,
        };
        own_level().opens(meta.level)?;
        if meta.level < own_level() {
            // No other program has the store open, so this one may write all that it knows.
            meta.level = own_level();
            write_meta(path, &meta, disk)?;
        }
        // A process that was killed may have made names that are not durable yet.
        disk.sync_names(path).map_err(EmbeddedOpenError::at(path))?;
        Ok(Self { path: path.to_owned(), meta, lock })
    }

    /// Locks the directory of a store that exists; `None` if there is no store. Makes nothing, but a file for the lock if
    /// somebody removed it.
    pub fn existing(path: &Path) -> Result<Option<Self>, EmbeddedOpenError> {
        refuse_network(path)?;
        refuse_foreign(path)?;
        let Some(meta) = read_meta(path)? else { return Ok(None) };
        own_level().opens(meta.level)?;
        let lock = take_lock(path)?;
        Ok(Some(Self { path: path.to_owned(), meta, lock }))
    }

    /// Refuses a store that a restore left incomplete, except to that restore.
    pub fn refuse_half_restored(&self, to: Nonce) -> Result<(), EmbeddedOpenError> {
        let path = self.path.join(RESTORING);
        match fs::read_to_string(&path) {
            Ok(by) if by == to.to_string() => Ok(()),
            Ok(_) => Err(EmbeddedOpenError::HalfRestored { dir: self.path.clone() }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(EmbeddedOpenError::at(path)(e)),
        }
    }

    /// The ids of the segment files, in ascending order.
    pub fn segment_ids(&self) -> Result<Vec<u64>, EmbeddedOpenError> {
        segment_ids(&self.path)
    }

    /// Replaces `META` by one with another identity and epoch, and with another secret if one is given.
    pub fn restamp(
        &mut self,
        identity: Nonce,
        epoch: Epoch,
        secret: Option<SecretBytes>,
        disk: &dyn Disk,
    ) -> Result<(), EmbeddedOpenError> {
        self.meta.identity = identity;
        self.meta.epoch = epoch;
        self.meta.secret = secret.map_or(self.meta.secret, |secret| secret.0);
        write_meta(&self.path, &self.meta, disk)
    }
}

fn names(dir: &Path) -> Result<Vec<String>, EmbeddedOpenError> {
    let entries = fs::read_dir(dir).map_err(EmbeddedOpenError::at(dir))?;
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|e| e.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect::<io::Result<_>>().map_err(EmbeddedOpenError::at(dir))
}

fn segment_ids(dir: &Path) -> Result<Vec<u64>, EmbeddedOpenError> {
    let mut ids: Vec<u64> = names(dir)?.iter().filter_map(|n| Segment::id_of(n)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// A user who can write to the directory can remove or replace the log, whatever the modes of its files.
fn warn_of_others(dir: &Path) -> Result<(), EmbeddedOpenError> {
    let mode = fs::metadata(dir).map_err(EmbeddedOpenError::at(dir))?.permissions().mode() & 0o7777;
    if mode & 0o022 != 0 {
        tracing::warn!(
            dir = %dir.display(), mode = format!("{mode:04o}"),
            "other users can write to the data directory and replace files; run chmod 0700 on it"
        );
    }
    Ok(())
}

fn refuse_foreign(dir: &Path) -> Result<(), EmbeddedOpenError> {
    let names = names(dir)?;
    if names.iter().any(|n| n == META) {
        return Ok(());
    }
    if names.iter().any(|n| Segment::id_of(n).is_some()) {
        let why = "is missing, though the log is there";
        return Err(EmbeddedOpenError::MetaCorrupt { path: dir.join(META), why });
    }
    let ours = [LOCK, META_TEMPORARY, RESTORING, LOST_AND_FOUND, WITNESS, BACKUPS];
    // A coordinator remembers there how far its audit log had come.
    let is_ours = |name: &str| {
        ours.contains(&name) || (name.starts_with("audit-") && name.ends_with(".head"))
    };
    match names.into_iter().find(|n| !is_ours(n)) {
        Some(found) => Err(EmbeddedOpenError::Foreign { dir: dir.to_owned(), found }),
        None => Ok(()),
    }
}

/// From now on, the store of this directory can be opened only under this name.
pub(super) fn begin_restore(
    dir: &Path,
    by: Nonce,
    disk: &dyn Disk,
) -> Result<(), EmbeddedOpenError> {
    let path = dir.join(RESTORING);
    let put = disk.put(&path, by.to_string().as_bytes()).and_then(|()| disk.sync_names(dir));
    put.map_err(EmbeddedOpenError::at(path))
}

pub(super) fn end_restore(dir: &Path, disk: &dyn Disk) -> Result<(), EmbeddedOpenError> {
    let path = dir.join(RESTORING);
    let removed = fs::remove_file(&path).and_then(|()| disk.sync_names(dir));
    removed.map_err(EmbeddedOpenError::at(path))
}

fn take_lock(dir: &Path) -> Result<File, EmbeddedOpenError> {
    let path = dir.join(LOCK);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    let file = file.map_err(EmbeddedOpenError::at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(EmbeddedOpenError::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(EmbeddedOpenError::at(path)(source)),
    }
}

fn read_meta(dir: &Path) -> Result<Option<MetaFile>, EmbeddedOpenError> {
    let path = dir.join(META);
    match fs::read(&path) {
        Ok(bytes) => MetaFile::decode(&bytes, &path).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(EmbeddedOpenError::at(path)(e)),
    }
}

fn make_meta(dir: &Path, fresh: &Fresh, disk: &dyn Disk) -> Result<MetaFile, EmbeddedOpenError> {
    let meta = MetaFile {
        identity: fresh.identity,
        log_id: fresh.identity.0,
        epoch: Epoch(0),
        level: own_level(),
        created_ms: fresh.created_ms,
        secret: fresh.secret,
    };
    write_meta(dir, &meta, disk)?;
    Ok(meta)
}

fn write_meta(dir: &Path, meta: &MetaFile, disk: &dyn Disk) -> Result<(), EmbeddedOpenError> {
    let (temporary, path) = (dir.join(META_TEMPORARY), dir.join(META));
    let written =
        disk.put(&temporary, &meta.encode()).and_then(|()| disk.rename(&temporary, &path));
    written.map_err(EmbeddedOpenError::at(&path))
}

/// Network file systems by their magic number; see statfs(2).
const NETWORK: [(u32, &str); 5] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFE53_4D42, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0x00C3_6400, "Ceph"),
];

#[cfg(target_os = "linux")]
fn refuse_network(dir: &Path) -> Result<(), EmbeddedOpenError> {
    let stat = rustix::fs::statfs(dir).map_err(|e| EmbeddedOpenError::at(dir)(e.into()))?;
    // The type of the field differs between targets. The magic numbers have 32 bits.
    match NETWORK.iter().find(|(magic, _)| stat.f_type as u32 == *magic) {
        Some((_, kind)) => Err(EmbeddedOpenError::Network { dir: dir.to_owned(), kind }),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_: &Path) -> Result<(), EmbeddedOpenError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_above_the_first_is_kept_and_the_first_is_as_before_levels() {
        for (level, version, bytes) in [(1, 1, 90), (2, 2, 91), (255, 2, 91)] {
            let meta = MetaFile {
                identity: Nonce(7),
                log_id: 8,
                epoch: Epoch(9),
                level: Level(level),
                created_ms: 10,
                secret: [11; 32],
            };
            let written = meta.encode();
            assert_eq!((u32_at(&written, 8), written.len()), (Some(version), bytes));
            let read = |bytes: &[u8]| MetaFile::decode(bytes, Path::new("META"));
            let found = read(&written).unwrap();
            assert_eq!((found.level, found.identity), (Level(level), Nonce(7)));
            assert_eq!((found.epoch, found.secret), (Epoch(9), [11; 32]));
            for at in 0..written.len() {
                let mut damaged = written.clone();
                damaged[at] ^= 1;
                assert!(read(&damaged).is_err(), "{at}");
            }
        }
    }
}
