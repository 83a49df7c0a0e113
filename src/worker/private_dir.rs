//! A directory that only its owner can read.
//!
//! Guarantees: a lock keeps away the cleaners of temporary files that respect locks, such as systemd-tmpfiles. If another
//! one removes the directory, the next file that is written brings the directory back.

use std::{
    fmt::Write as _,
    fs, io,
    io::Write as _,
    os::unix::fs::{
        DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::clock::{Entropy, SystemEntropy};

/// The longest path of the directory, in bytes: the kernel's limit for socket addresses, less the longest file name.
const LONGEST: usize = 90;

/// The prefix of the directory's name. A random number of 128 bits follows.
const NAME: &str = "tenure-";

/// A directory of mode 0700 under `XDG_RUNTIME_DIR` or the directory for temporary files. It is removed when this is
/// dropped. If the process is killed, its guardian removes the directory.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    /// The directory itself, with a shared lock.
    lock: Mutex<Option<fs::File>>,
}

impl PrivateDir {
    /// Creates the directory.
    ///
    /// # Errors
    /// If it cannot be created in any of the places. The error names them.
    pub fn new() -> io::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let places = runtime.into_iter().chain([std::env::temp_dir(), "/tmp".into()]);
        let places: Vec<PathBuf> = places.collect();
        Self::below(&places)
    }

    fn below(places: &[PathBuf]) -> io::Result<Self> {
        let name = format!("{NAME}{}", SystemEntropy::new().nonce());
        let mut refused = String::new();
        for (nth, place) in
            places.iter().enumerate().filter(|(n, place)| !places[..*n].contains(place))
        {
            let path = place.join(&name);
            let why = if path.as_os_str().len() > LONGEST {
                format!("its path has more than {} bytes", LONGEST - name.len() - 1)
            } else {
                match fs::DirBuilder::new().mode(0o700).create(&path) {
                    Ok(()) => {
                        let lock = Mutex::new(locked(&path));
                        return Ok(Self { path, lock });
                    }
                    Err(error) => error.to_string(),
                }
            };
            let comma = if nth > 0 { ", " } else { "" };
            let _ = write!(refused, "{comma}{} ({why})", place.display());
        }
        Err(io::Error::other(format!(
            "no directory can be made for temporary files in {refused}; set TMPDIR to a directory that this user may write \
             to"
        )))
    }

    /// Makes the directory again, because somebody removed it.
    fn come_back(&self) -> io::Result<()> {
        let made = fs::DirBuilder::new().mode(0o700).create(&self.path);
        made.or_else(|error| if is_own(&self.path) { Ok(()) } else { Err(error) })?;
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = locked(&self.path);
        Ok(())
    }

    /// Removes the private directory of a killed process. Leaves every other directory alone.
    pub(super) fn clear(path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix(NAME).unwrap_or_default();
        let named = number.len() == 32 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
        if named && is_own(path) {
            let _ = fs::remove_dir_all(path);
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of mode 0600 atomically: a reader sees either the complete old text or the complete new text. If the
    /// directory was removed, it comes back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &[u8]) -> io::Result<PathBuf> {
        match self.try_write(name, text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.come_back()?;
                self.try_write(name, text)
            }
            written => written,
        }
    }

    fn try_write(&self, name: &str, text: &[u8]) -> io::Result<PathBuf> {
        let (path, part) = (self.path.join(name), self.path.join(format!("{name}.part")));
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(text)?;
        fs::rename(&part, &path)?;
        Ok(path)
    }

    /// Removes a file. A missing file is no error.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }
}

/// The directory, with a lock on it. Without a lock, a cleaner may remove what is in it.
fn locked(path: &Path) -> Option<fs::File> {
    fs::File::open(path).ok().filter(|dir| dir.try_lock_shared().is_ok())
}

/// Whether this is a directory that only this user can read. A symbolic link to one does not count.
fn is_own(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        let own = rustix::process::geteuid().as_raw() == found.uid();
        found.is_dir() && own && found.permissions().mode() & 0o777 == 0o700
    })
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
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
    fn a_directory_that_was_removed_comes_back_locked() {
        let dir = PrivateDir::new().unwrap();
        let is_locked = || fs::File::open(dir.path()).unwrap().try_lock().is_err();
        assert!(is_locked(), "a cleaner that asks for the lock gets it");
        fs::remove_dir_all(dir.path()).unwrap();
        let file = dir.write("lease", b"one").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"one");
        assert!(is_locked() && is_own(dir.path()));
        // Whoever saw its name might make it.
        fs::remove_dir_all(dir.path()).unwrap();
        fs::DirBuilder::new().mode(0o755).create(dir.path()).unwrap();
        fs::remove_dir(dir.path()).unwrap();
        std::os::unix::fs::symlink("/no/such/place", dir.path()).unwrap();
        assert!(dir.write("lease", b"two").is_err());
        fs::remove_file(dir.path()).unwrap();
    }

    #[test]
    fn a_refusal_names_the_places_and_the_remedy() {
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(80)));
        let places = ["/proc".into(), long, "/no/such".into(), "/proc".into()];
        let why = PrivateDir::below(&places).unwrap_err().to_string();
        for part in ["/proc (", "more than", "/no/such (No such file", "set TMPDIR"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(why.matches("/proc (").count(), 1, "{why}");
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
