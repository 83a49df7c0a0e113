//! The Unix socket of a coordinator.
//!
//! Guarantees: nobody connects to the socket before it has its mode. The file of a process that is gone is
//! replaced. That of a living process, and any other file, is left alone. At the end the file is removed, unless it is
//! another's by then.
//!
//! Assumes: no two processes start on the same path at the same moment.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// The file of a socket. Dropping it removes the file.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// What distinguishes it from a file that replaced it.
    made: Identity,
}

/// Listens on a socket at this path, whose file has this mode.
///
/// # Errors
/// The path cannot be used, or another process listens there.
pub(crate) fn listen(
    path: &Path,
    backlog: i32,
    mode: u32,
) -> io::Result<(UnixListener, SocketFile)> {
    remove_if_dead(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    let file = SocketFile { path: path.to_owned(), made: identity(path)? };
    net::listen(&socket, backlog)?;
    Ok((UnixListener::from(socket), file))
}

/// Removes the socket of a process that is gone.
fn remove_if_dead(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let in_use = |problem| Err(io::Error::new(io::ErrorKind::AddrInUse, problem));
    if !found.file_type().is_socket() {
        return in_use("there is a file that is no socket");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "replacing the socket of a process that is gone");
            fs::remove_file(path)
        }
        Ok(_) => in_use("another process listens there"),
        Err(error) => Err(error),
    }
}

/// Device, inode, and when the inode changed last: a new file may get the inode of one that was removed.
type Identity = (u64, u64, i64, i64);

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.made) {
            // If this fails, the next start removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mode that is asked for.
    const MODE: u32 = 0o620;

    #[test]
    fn a_dead_socket_is_replaced_and_a_living_one_or_another_file_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let (listener, file) = listen(&path, 1, MODE).expect("it is free");
        let mode = fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, MODE);
        let refused = listen(&path, 1, MODE).map(drop).expect_err("it is in use");
        assert!(refused.to_string().contains("another process"), "{refused}");
        // As after a kill: the file stays, and nobody listens.
        drop(listener);
        let (_listener, successor) = listen(&path, 1, MODE).expect("it is dead");
        drop(file);
        assert!(path.exists(), "it is the successor's");
        drop(successor);
        assert!(!path.exists());
        fs::write(&path, "text").expect("written");
        let refused = listen(&path, 1, MODE).map(drop).expect_err("it is a file");
        assert!(refused.to_string().contains("no socket"), "{refused}");
        assert!(path.exists());
    }
}
