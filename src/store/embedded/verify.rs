//! Checks a store's directory before a coordinator is started on it.
//!
//! Guarantees: no file of the store changes. The log is read as at a start, on a disk that leaves every write undone.
//!
//! Does not guarantee: anything of the log while a coordinator has the store open. The log is not read then.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    sync::Arc,
};

use rustix::fs::{Access, access, statvfs};

use super::{
    super::{
        Finding, Range,
        verify::{self, Records},
    },
    directory::{Directory, MetaFile},
    disk::Disk,
    error::EmbeddedOpenError,
    mark::Mark,
    options::Options,
    recovery::recover,
    shared::EmbeddedShared,
    untouched::UntouchedDisk,
};

/// How many keys are read at a time.
const PAGE: usize = 1000;

/// Checks the store of these options. Reads the whole log, unless another process has the store open. Blocks.
#[must_use]
pub fn findings(options: &Options) -> Vec<Finding> {
    let dir: &Path = &options.dir;
    let metadata = match fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return vec![absent(dir)],
        Err(error) => return vec![Finding::failed("directory", EmbeddedOpenError::at(dir)(error))],
    };
    let mut found = vec![owner(dir, &metadata)];
    found.push(match statvfs(dir) {
        Ok(disk) => room(disk.f_bavail.saturating_mul(disk.f_frsize), options),
        Err(why) => Finding::warning("room", format!("the free room is not known: {why}")),
    });
    match Directory::existing(dir) {
        Ok(Some(directory)) => found.extend(contents(options, directory)),
        Ok(None) => {
            let new = "there is no store in the directory yet; the first coordinator makes it";
            found.push(Finding::warning("identity", new));
        }
        Err(EmbeddedOpenError::Locked { .. }) => found.push(Finding::warning(
            "log",
            "not read: a coordinator has the store open. Run this again once it is stopped",
        )),
        Err(why) => found.push(Finding::failed("identity", why)),
    }
    found
}

/// There is no directory: whether it can be made.
fn absent(dir: &Path) -> Finding {
    let there = dir.ancestors().skip(1).find(|above| above.exists()).unwrap_or(Path::new("."));
    if access(there, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let (dir, there) = (dir.display(), there.display());
        return Finding::failed(
            "directory",
            format!("{dir} is missing and cannot be made: no permission to write to {there}"),
        );
    }
    let new = format!("{} is missing; the first coordinator makes it", dir.display());
    Finding::warning("directory", new)
}

/// Whether this process may use the directory, and whether others may not.
fn owner(dir: &Path, metadata: &Metadata) -> Finding {
    let (mode, owner) = (metadata.permissions().mode() & 0o7777, metadata.uid());
    let this = rustix::process::geteuid().as_raw();
    let dir_name = dir.display();
    let as_it_is = format!("{dir_name} belongs to user {owner} with mode {mode:04o}");
    if access(dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let why = format!("{as_it_is}, and user {this} may not write there; check owner and mode");
        return Finding::failed("directory", why);
    }
    if mode & 0o022 != 0 {
        let why = format!("{as_it_is}: other users can replace its files; run chmod 0700 on it");
        return Finding::warning("directory", why);
    }
    if owner != this && this != 0 {
        let why = format!("{as_it_is}, and this check runs as user {this}");
        return Finding::warning("directory", why);
    }
    Finding::ok("directory", as_it_is)
}

/// Judges the free room of the disk, in bytes.
fn room(free: u64, options: &Options) -> Finding {
    let detail = format!("{} MiB are free", free >> 20);
    if free < u64::from(options.segment_bytes()) {
        let why = format!("{detail}, which is less than one segment takes; make room on the disk");
        return Finding::failed("room", why);
    }
    if free < options.min_log_bytes {
        let why = format!("{detail}, less than store.embedded.min_log_size; make room on the disk");
        return Finding::warning("room", why);
    }
    Finding::ok("room", detail)
}

/// Judges everything in a store that this process has locked.
fn contents(options: &Options, directory: Directory) -> Vec<Finding> {
    if let Err(why) = directory.refuse_half_restored(options.fresh.identity) {
        return vec![Finding::failed("identity", why)];
    }
    let MetaFile { identity, epoch, level, .. } = directory.meta;
    let mut found = vec![verify::identity(identity, epoch, level)];
    let shared = match read(options, &directory) {
        Ok(shared) => shared,
        Err(why) => {
            found.push(Finding::failed("log", why));
            return found;
        }
    };
    let mib = shared.stats().log_bytes >> 20;
    found.push(Finding::ok("log", format!("{mib} MiB, and no damage")));
    let mut records = Records::new(epoch);
    let mut range = Range { limit: PAGE, ..Range::default() };
    loop {
        let page = match shared.scan(&range) {
            Ok(page) => page,
            Err(why) => {
                found.push(Finding::failed("records", why));
                return found;
            }
        };
        let Some((last, _)) = page.last() else { break };
        range.after = Some(last.as_str().to_owned());
        for (key, one) in &page {
            records.take(key.as_str(), one.revision, one.record.as_deref());
        }
    }
    found.push(records.finding());
    found
}

/// Reads the log, and leaves it as it is.
fn read(options: &Options, directory: &Directory) -> Result<EmbeddedShared, EmbeddedOpenError> {
    let disk: Arc<dyn Disk> = Arc::new(UntouchedDisk);
    let mark = Mark::open(directory, &*disk)?;
    let recovered = recover(directory, &mark, &*disk, options.segment_bytes())?;
    Ok(EmbeddedShared::new(options, directory.path.clone(), &directory.meta, recovered, disk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lease::Nonce,
        store::{Fresh, Grade},
    };

    #[test]
    fn a_disk_without_room_for_a_segment_fails() {
        let fresh = Fresh { identity: Nonce(1), secret: [0; 32], created_ms: 0 };
        let options =
            Options { segment_bytes: 4 << 20, min_log_bytes: 32 << 20, ..Options::new("d", fresh) };
        for (free, result) in [
            (0, Grade::Failed),
            ((4 << 20) - 1, Grade::Failed),
            (4 << 20, Grade::Warning),
            (32 << 20, Grade::Ok),
        ] {
            assert_eq!(room(free, &options).result, result, "{free}");
        }
    }
}
