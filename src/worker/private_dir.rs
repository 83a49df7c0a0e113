//! A directory that only its owner can read.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
};

use crate::clock::{Entropy, SystemEntropy};

/// The longest path of the directory, in bytes: the kernel's limit for socket addresses, less the longest file name.
const LONGEST: usize = 90;

/// The prefix of the directory's name. A random number of 128 bits follows.
const NAME: &str = "tenure-";

/// A directory of mode 0700 under `XDG_RUNTIME_DIR` or the directory for temporary files. It is removed when this is
/// dropped. If the process is killed, its guardian removes the directory.
#[derive(Debug)]
pub struct PrivateDir(PathBuf);

impl PrivateDir {
    /// Creates the directory.
    ///
    /// # Errors
    /// If it cannot be created in any of the places.
    pub fn new() -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let places = runtime.into_iter().chain([std::env::temp_dir(), "/tmp".into()]);
        let name = format!("{NAME}{}", SystemEntropy::new().nonce());
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

    /// Removes the private directory of a killed process. Leaves every other directory alone.
    pub(super) fn clear(path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix(NAME).unwrap_or_default();
        let named = number.len() == 32 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        let own = |found: fs::Metadata| {
            let own = rustix::process::geteuid().as_raw() == found.uid();
            found.is_dir() && own && found.permissions().mode() & 0o777 == 0o700
        };
        // A symbolic link to a directory does not count.
        if named && fs::symlink_metadata(path).is_ok_and(own) {
            let _ = fs::remove_dir_all(path);
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file of mode 0600 atomically: a reader sees either the complete old text or the complete new text.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &[u8]) -> io::Result<PathBuf> {
        let (path, part) = (self.0.join(name), self.0.join(format!("{name}.part")));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text)?;
        fs::rename(&part, &path)?;
        Ok(path)
    }

    /// Removes a file. A missing file is no error.
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
    use super::*;

    #[test]
    fn no_directory_of_others_is_cleared() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = place.path().join(name);
            fs::DirBuilder::new().mode(mode).create(&path).unwrap();
            fs::write(path.join("precious"), "").unwrap();
            path
        };
        let number = "0123456789abcdef0123456789abcdef";
        let kept = [
            make("mine", 0o700),
            make(&format!("tenure-{number}x"), 0o700),
            make("tenure-0123", 0o700),
            make(&format!("tenure-{}", number.replace('0', "1")), 0o755),
        ];
        let link = place.path().join(format!("tenure-{}", number.replace('1', "2")));
        std::os::unix::fs::symlink(&kept[0], &link).unwrap();
        for path in kept.iter().chain([&link]) {
            PrivateDir::clear(path);
            assert!(path.join("precious").exists(), "{}", path.display());
        }
        let own = make(&format!("tenure-{number}"), 0o700);
        PrivateDir::clear(&own);
        assert!(!own.exists());
    }

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
