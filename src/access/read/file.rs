//! The file itself and those that it names: their content, and who else may read or change them.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use crate::{
    access::way::{self, OTHERS_WRITE, Step},
    settings::{Fault, Origin},
};

/// The largest file, in bytes: some ten thousand principals.
const MAX_BYTES: u64 = 16 << 20;
/// The bits of a mode for the users who may read the file beside its owner.
const OTHERS_READ: u32 = 0o044;

/// The content of the file, and what to look at.
pub(super) fn read(path: &Path) -> Result<(String, Option<String>), Fault> {
    let (content, mode) = guarded(path, MAX_BYTES).map_err(|problem| Fault {
        origin: Origin::File { path: Arc::new(path.to_owned()), line: None },
        key: None,
        problem,
    })?;
    let warning = (mode & OTHERS_READ != 0).then(|| {
        format!(
            "{} has mode {:04o}: others than its owner may read who may do what, though no token (chmod 600)",
            path.display(),
            mode & 0o7777
        )
    });
    Ok((content, warning))
}

/// The content and the mode of a file that has at most so many bytes, and that nobody may write or replace but its
/// owner, who is root or the user of this process.
pub(super) fn guarded(path: &Path, most: u64) -> Result<(String, u32), String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    // To open a pipe would wait for a writer.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("cannot be read: it is no regular file".to_owned());
    }
    let file = File::open(path).map_err(unreadable)?;
    // The mode of the very file that is read, whatever the path leads to later.
    let metadata = file.metadata().map_err(unreadable)?;
    let (owner, mode) = (metadata.uid(), metadata.mode());
    if mode & OTHERS_WRITE != 0 {
        return Err(format!(
            "has mode {:04o}, so others than its owner could give themselves rights: chmod 600 {}",
            mode & 0o7777,
            path.display()
        ));
    }
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(format!(
            "belongs to the user with uid {owner}, who could give himself rights: chown it to root or to the user that \
             tenure runs as"
        ));
    }
    let way = way::to(path).map_err(unreadable)?;
    way.iter().find_map(Step::replaceable).map_or(Ok(()), Err)?;
    let mut content = String::new();
    (&file).take(most + 1).read_to_string(&mut content).map_err(unreadable)?;
    if content.len() as u64 > most {
        return Err(format!("is longer than {most} bytes"));
    }
    Ok((content, mode))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt as _,
    };

    use super::*;

    #[test]
    fn a_pipe_is_refused_without_a_wait_for_its_writer() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.toml");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        assert_eq!(guarded(&path, 100), Err("cannot be read: it is no regular file".to_owned()));
    }

    #[test]
    fn a_file_that_others_could_replace_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.toml");
        fs::write(&path, "content").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
        let read_in = |mode| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).expect("a mode");
            guarded(&path, 100)
        };
        for mode in [0o777, 0o770, 0o702] {
            let problem = read_in(mode).expect_err("others could replace it");
            assert!(problem.contains("could replace it: chmod go-w"), "{problem}");
        }
        for mode in [0o1777, 0o755, 0o700] {
            assert_eq!(read_in(mode).expect("nobody else can").0, "content");
        }
    }
}
