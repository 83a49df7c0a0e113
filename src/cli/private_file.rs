//! Files with secrets: only their owner may read them, and none is overwritten.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rustix::fs::FileType;

use crate::clock::{Entropy as _, SystemEntropy};

/// Refuses a regular file as stdout that other users may read: shells create such files by default. `what` says what is
/// written, and what to do instead.
pub(super) fn refuse_if_others_read(out: &impl AsFd, what: &str) -> anyhow::Result<()> {
    let stat = rustix::fs::fstat(out).context("cannot check who may read stdout")?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    anyhow::ensure!(
        !is_file || stat.st_mode & 0o077 == 0,
        "other users may read the file that stdout goes to, and {what}"
    );
    Ok(())
}

/// The mode's bits for those who may change a file besides its owner.
const OTHERS_WRITE: u32 = 0o022;
/// The bit of a directory in which nobody may replace the files of others.
const STICKY: u32 = 0o1000;

/// The content of a file of at most so many bytes that nobody may change or replace but its owner, who is root or the
/// user of this process.
pub(super) fn read_own(path: &Path, most: u64) -> io::Result<String> {
    let file = File::open(path)?;
    // The mode of the very file that is read, whatever the path leads to later.
    let metadata = file.metadata()?;
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(io::Error::other("others than its owner may change it: chmod go-w it"));
    }
    let owner = metadata.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("it belongs to another user, with uid {owner}")));
    }
    // The path may lead to the file by a link, which could be replaced as well.
    for path in [std::path::absolute(path)?, path.canonicalize()?] {
        let mode = folder(&path).metadata()?.mode();
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            let problem = "others than its owner may replace it: chmod go-w its directory";
            return Err(io::Error::other(problem));
        }
    }
    let mut content = String::new();
    (&file).take(most + 1).read_to_string(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(content)
}

/// Creates a file that only its owner may read.
pub(super) fn create(path: &Path) -> anyhow::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| anyhow::anyhow!(refusal(path, &error)))
}

/// Makes a file that only its owner may read, durable and with all of its content, or no file.
pub(super) fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    let unable = |error: io::Error| anyhow::anyhow!(refusal(path, &error));
    let dir = folder(path);
    if !dir.exists() {
        DirBuilder::new().mode(0o755).create(&dir).map_err(unable)?;
    }
    let part = dir.join(format!(".tenure-{}.part", SystemEntropy::new().nonce()));
    let written = write_part(&part, content).and_then(|()| {
        // A link never replaces a file.
        fs::hard_link(&part, path)
    });
    let _ = fs::remove_file(&part);
    written.map_err(unable)?;
    sync_folder(path).map_err(unable)
}

fn write_part(part: &Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

/// Makes the name of a new file durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> PathBuf {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new(".")).to_owned()
}

fn refusal(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{path} exists and is not overwritten: name another file")
        }
        _ => format!("cannot create {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_whole_for_its_owner_alone_and_replaces_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/file");
        write(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let refused = write(&path, "two").unwrap_err().to_string();
        assert!(refused.contains("is not overwritten"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "a part is left");
        assert_eq!(read_own(&path, 3).unwrap(), "one");
        assert!(read_own(&path, 2).unwrap_err().to_string().contains("longer"));
        for (changed, mode) in [(path.as_path(), 0o660), (path.parent().unwrap(), 0o777)] {
            let before = fs::metadata(changed).unwrap().permissions();
            fs::set_permissions(changed, fs::Permissions::from_mode(mode)).unwrap();
            assert!(read_own(&path, 3).unwrap_err().to_string().contains("chmod"), "{mode:o}");
            fs::set_permissions(changed, before).unwrap();
        }
        let nowhere = write(&dir.path().join("a/b/c"), "").unwrap_err().to_string();
        assert!(nowhere.contains("cannot create"), "{nowhere}");
    }
}
