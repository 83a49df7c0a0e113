//! Files that give rights, such as the access file and the authorities of clients: who may change or replace them.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

use rustix::process::{Uid, geteuid};

use super::way::{self, OTHERS_WRITE, Step};

/// The content and the mode of a file that has at most so many bytes, and that nobody may write or replace but root and
/// this user.
///
/// # Errors
/// Why it is not read. The text follows the name of the file.
pub fn read_guarded(path: &Path, most: u64, user: Uid) -> Result<(Vec<u8>, u32), String> {
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
            "has mode {:04o}, so others than its owner could give themselves rights: chmod go-w {}",
            mode & 0o7777,
            path.display()
        ));
    }
    if owner != 0 && owner != user.as_raw() {
        return Err(format!(
            "belongs to the user with uid {owner}, who could give himself rights: chown it to root or to the user that \
             tenure runs as"
        ));
    }
    let way = way::to(path).map_err(unreadable)?;
    way.iter().find_map(|step| step.replaceable(user)).map_or(Ok(()), Err)?;
    let mut content = Vec::new();
    (&file).take(most + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > most {
        return Err(format!("is longer than {most} bytes"));
    }
    Ok((content, mode))
}

/// The owner and mode of each directory and link on the path to a file; `None` if the path leads nowhere.
#[must_use]
pub fn rights_on_the_way(path: &Path) -> Option<Vec<[u32; 2]>> {
    let steps = way::to(path).ok()?;
    Some(steps.iter().map(Step::rights).collect())
}

/// The user who may change a file besides root, when a command judges the file. That is the user of this process. If that
/// user is root, it is the owner of the file, because a coordinator may run as the owner.
#[must_use]
pub fn judged_for(path: &Path) -> Uid {
    let own = geteuid();
    let owner = std::fs::metadata(path).ok().filter(|_| own.is_root());
    owner.map_or(own, |found| Uid::from_raw(found.uid()))
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
        let read = read_guarded(&path, 100, geteuid());
        assert_eq!(read, Err("cannot be read: it is no regular file".to_owned()));
    }

    #[test]
    fn a_file_that_others_could_replace_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("access.toml");
        fs::write(&path, "content").expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
        let read_in = |mode| {
            fs::set_permissions(directory.path(), Permissions::from_mode(mode)).expect("a mode");
            read_guarded(&path, 100, geteuid())
        };
        for mode in [0o777, 0o770, 0o702] {
            let problem = read_in(mode).expect_err("others could replace it");
            assert!(problem.contains("could replace it: chmod go-w"), "{problem}");
        }
        for mode in [0o1777, 0o755, 0o700] {
            assert_eq!(read_in(mode).expect("nobody else can").0, b"content");
        }
    }
}
