//! A directory that only its owner can look into.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::clock::{Entropy, SystemEntropy};

/// Where the kernel's limit for the address of a socket lies, less the longest name of ours.
const LONGEST: usize = 90;

/// A directory of mode 0700 under `XDG_RUNTIME_DIR` or the directory for temporary files. It is removed
/// when this is dropped; when the process is killed, its guardian removes it.
#[derive(Debug)]
pub struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Makes it.
    ///
    /// # Errors
    /// When none can be made.
    pub fn new() -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let places = runtime.into_iter().chain([std::env::temp_dir(), "/tmp".into()]);
        let name = format!("tenure-{}", SystemEntropy::new().nonce());
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            let path = place.join(&name);
            if path.as_os_str().len() > LONGEST {
                continue;
            }
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file of mode 0600 so that a reader sees all of the old text or all of the new.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &[u8]) -> io::Result<PathBuf> {
        let (path, part) = (self.0.join(name), self.0.join(format!("{name}.part")));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text)?;
        fs::rename(&part, &path)?;
        Ok(path)
    }

    /// Removes a file; none is no error.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.0.join(name));
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn nobody_else_can_look_into_it_and_it_is_removed() {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let dir = PrivateDir::new().unwrap();
        let file = dir.write("lease", b"one").unwrap();
        assert_eq!((mode(dir.path()), mode(&file)), (0o700, 0o600));
        dir.write("lease", b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        dir.remove("lease");
        dir.remove("lease");
        let path = dir.path().to_owned();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        drop(dir);
        assert!(!path.exists());
    }
}
