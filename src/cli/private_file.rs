//! Files with secrets: only their owner may read them, and none is overwritten.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
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
        let nowhere = write(&dir.path().join("a/b/c"), "").unwrap_err().to_string();
        assert!(nowhere.contains("cannot create"), "{nowhere}");
    }
}
