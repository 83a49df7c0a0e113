//! The access file and the files of keys that it names, followed while a coordinator runs.
//!
//! Guarantees: what is in force changes as a whole, to files that have no fault. A fault is reported once for each change
//! of the files. [`Followed::follow`] reads a file only after it found it unchanged at two looks in a row, so a file that
//! is being written is not read before its writer pauses.
//!
//! Does not guarantee: that a file whose writer paused is complete. A file that was renamed into its place is.
//!
//! Assumes: a file that changes gets another inode, size, or time of its last change. The caller looks every few seconds.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::geteuid;

use super::{broken::Broken, current::Current, principals::Access};
use crate::{
    files::rights_on_the_way,
    settings::{Fault, Faults, Origin},
};

/// The files are at fault once this many looks in a row found them changed.
const MOST_RESTLESS: u32 = 10;

/// The access file, and the principals in force.
pub struct Followed {
    path: PathBuf,
    current: Arc<Current>,
    seen: Mutex<Seen>,
}

/// What a look at the files found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// The files are as they were, or are being written, or their faults are known already.
    Nothing,
    /// They changed, and are in force.
    Applied,
    /// They changed and have faults, or change again and again. What was in force stays.
    Refused(Faults),
}

/// What was last seen of the files.
struct Seen {
    stamps: Vec<(PathBuf, Stamp)>,
    /// The files did not change between two looks, and were read.
    is_read: bool,
    /// What was read is in force.
    is_in_force: bool,
    /// The number of looks in a row that found other files than the look before.
    restless: u32,
}

/// What tells a file, and the directories and links on the way to it, from what was there before; `None` if there is no
/// file.
type Stamp = (Option<[i64; 6]>, Option<Vec<[u32; 2]>>);

impl Followed {
    /// Reads the file.
    ///
    /// # Errors
    /// All its faults, each with its line.
    pub fn open(path: &Path, now_ms: u64) -> Result<Self, Faults> {
        let (stamps, access) = read(path, &[], now_ms);
        let seen = Seen { stamps, is_read: true, is_in_force: true, restless: 0 };
        let current = Arc::new(Current::new(access?));
        Ok(Self { path: path.to_owned(), current, seen: Mutex::new(seen) })
    }

    /// The principals that are in force.
    #[must_use]
    pub fn current(&self) -> &Arc<Current> {
        &self.current
    }

    /// Reads the files again if one of them changed, and did not change any more since the last look. Blocks while it
    /// reads.
    pub fn follow(&self, now_ms: u64) -> Look {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now: Vec<_> = seen.stamps.iter().map(|(path, _)| stamped(path)).collect();
        if now != seen.stamps {
            let restless = seen.restless.saturating_add(1);
            *seen = Seen { stamps: now, is_read: false, is_in_force: false, restless };
            if restless == MOST_RESTLESS {
                return Look::Refused(self.never_rests());
            }
            if !Broken::HalfAFileIsRead.is_active() {
                return Look::Nothing;
            }
        }
        let is_known = seen.is_read;
        if is_known && seen.is_in_force {
            return Look::Nothing;
        }
        match self.apply(&mut seen, now_ms) {
            Ok(()) => Look::Applied,
            // It may be that a file could not be read just then, so it is read again at the next look.
            Err(_) if is_known => Look::Nothing,
            Err(faults) => Look::Refused(faults),
        }
    }

    /// Reads the files again, whether they changed or not. Blocks while it reads.
    ///
    /// # Errors
    /// All faults of the files. What was in force stays.
    pub fn reload(&self, now_ms: u64) -> Result<(), Faults> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.apply(&mut seen, now_ms)
    }

    fn apply(&self, seen: &mut Seen, now_ms: u64) -> Result<(), Faults> {
        let named: Vec<PathBuf> =
            seen.stamps.iter().skip(1).map(|(path, _)| path.clone()).collect();
        let (stamps, access) = read(&self.path, &named, now_ms);
        let (is_read, is_in_force) = (true, access.is_ok());
        *seen = Seen { stamps, is_read, is_in_force, restless: 0 };
        self.current.replace(access?);
        Ok(())
    }

    fn never_rests(&self) -> Faults {
        let problem = format!(
            "it, or a file of keys that it names, was another one at each of {MOST_RESTLESS} looks in a row, so it was \
             not read: write another file, and rename that into its place"
        );
        let origin = Origin::File { path: Arc::new(self.path.clone()), line: None };
        Faults(vec![Fault { origin, key: None, problem }])
    }
}

/// Reads the file. What tells it and the files that it names from earlier ones was looked at before they were read, so a
/// later change of them is noticed.
fn read(
    path: &Path,
    named: &[PathBuf],
    now_ms: u64,
) -> (Vec<(PathBuf, Stamp)>, Result<Access, Faults>) {
    let all = |named: &[PathBuf]| -> Vec<_> {
        std::iter::once(path).chain(named.iter().map(PathBuf::as_path)).map(stamped).collect()
    };
    let before = all(named);
    let first = Access::look(path, now_ms, geteuid());
    // A file that cannot be read names none. The files that it named before are followed on.
    if first.named.is_empty() || first.named == named {
        return (before, first.access);
    }
    let before = all(&first.named);
    (before, Access::look(path, now_ms, geteuid()).access)
}

fn stamped(path: &Path) -> (PathBuf, Stamp) {
    let file = fs::metadata(path).ok().map(|found| {
        let numbers = [found.dev(), found.ino(), found.len()].map(u64::cast_signed);
        // Owner and mode change the time of the last change too.
        let [dev, ino, len] = numbers;
        [dev, ino, len, found.mtime_nsec(), found.ctime(), found.ctime_nsec()]
    });
    (path.to_owned(), (file, rights_on_the_way(path)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    fn principal(name: &str) -> String {
        with_uid(name, 1)
    }

    fn with_uid(name: &str, uid: usize) -> String {
        format!(
            "[[principal]]\nname = \"{name}\"\nuid = [{uid}]\nmay = [{{ verb = \"observe\" }}]\n"
        )
    }

    fn put(dir: &TempDir, content: &str) -> PathBuf {
        let path = dir.path().join("access.toml");
        fs::write(dir.path().join("new"), content).expect("written");
        fs::set_permissions(dir.path().join("new"), fs::Permissions::from_mode(0o600))
            .expect("a mode");
        fs::rename(dir.path().join("new"), &path).expect("renamed");
        path
    }

    fn has(followed: &Followed, name: &str) -> bool {
        followed.current().load().by_name(name).is_some()
    }

    #[test]
    fn a_file_that_is_replaced_is_in_force_after_two_looks() {
        let dir = tempfile::tempdir().expect("a directory");
        let followed = Followed::open(&put(&dir, &principal("old")), 0).expect("a file");
        assert_eq!(followed.follow(0), Look::Nothing);
        put(&dir, &principal("new"));
        assert_eq!((followed.follow(0), has(&followed, "old")), (Look::Nothing, true));
        assert_eq!((followed.follow(0), has(&followed, "old")), (Look::Applied, false));
        assert_eq!((followed.follow(0), has(&followed, "new")), (Look::Nothing, true));
        assert_eq!(followed.current().generation(), 2);
    }

    #[test]
    fn a_fault_is_told_once_and_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = put(&dir, &principal("kept"));
        let followed = Followed::open(&path, 0).expect("a file");
        let is_refused = |why: &str| {
            assert_eq!(followed.follow(0), Look::Nothing, "{why}: it may be half of a file");
            assert!(matches!(followed.follow(0), Look::Refused(_)), "{why}");
            assert_eq!(followed.follow(0), Look::Nothing, "{why}: it is known");
            assert!(followed.reload(0).is_err(), "{why}: a reload reports it");
            assert!(has(&followed, "kept") && followed.current().generation() == 1, "{why}");
        };
        put(&dir, "[[principal]]\nname = 7\n");
        is_refused("a fault");
        put(&dir, "");
        is_refused("nothing");
        put(&dir, &principal("kept"));
        assert_eq!((followed.follow(0), followed.follow(0)), (Look::Nothing, Look::Applied));
        let followed = Followed::open(&path, 0).expect("a file");
        for (mode, why) in [(0o666, "others may write it"), (0o600, "")] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(followed.follow(0), Look::Nothing);
            assert_eq!(matches!(followed.follow(0), Look::Refused(_)), !why.is_empty(), "{why}");
        }
        fs::remove_file(&path).expect("removed");
        assert_eq!(followed.follow(0), Look::Nothing);
        assert!(matches!(followed.follow(0), Look::Refused(_)), "it is gone");
        put(&dir, &principal("kept"));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
        assert_eq!(followed.follow(0), Look::Nothing);
        assert!(matches!(followed.follow(0), Look::Refused(_)), "others may replace it");
    }

    #[test]
    fn a_file_that_is_being_written_is_not_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let all: Vec<String> = (0..50).map(|n| with_uid(&format!("p{n}"), n)).collect();
        let path = put(&dir, &all.concat());
        let followed = Followed::open(&path, 0).expect("a file");
        // Each part is a file without a fault.
        for written in 42..=50 {
            fs::write(&path, all[..written].concat()).expect("written");
            assert_eq!(followed.follow(0), Look::Nothing, "{written}");
            assert!(has(&followed, "p49"), "{written}");
        }
        assert_eq!((followed.follow(0), has(&followed, "p49")), (Look::Applied, true));
    }

    #[test]
    fn a_file_that_never_rests_is_told_of_once_and_read_when_it_rests() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = put(&dir, &principal("first"));
        let followed = Followed::open(&path, 0).expect("a file");
        let looks: Vec<Look> = (0..30)
            .map(|at| {
                put(&dir, &principal(&format!("p{at}")));
                followed.follow(0)
            })
            .collect();
        let told: Vec<_> = (0..30).filter(|at| looks[*at] != Look::Nothing).collect();
        assert_eq!(told, [MOST_RESTLESS as usize - 1]);
        assert!(matches!(&looks[told[0]], Look::Refused(_)));
        assert!(has(&followed, "first"));
        assert_eq!((followed.follow(0), has(&followed, "p29")), (Look::Applied, true));
        put(&dir, &principal("last"));
        assert_eq!((followed.follow(0), followed.follow(0)), (Look::Nothing, Look::Applied));
    }

    /// As Kubernetes changes a mounted secret: `..data` is renamed to name another directory.
    #[test]
    fn a_directory_that_is_swapped_behind_a_link_is_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        for (version, name) in [("1", "old"), ("2", "new")] {
            let inner = dir.path().join(version);
            fs::create_dir(&inner).expect("a directory");
            fs::write(inner.join("access.toml"), principal(name)).expect("written");
        }
        symlink("1", dir.path().join("..data")).expect("a link");
        let path = dir.path().join("access.toml");
        symlink("..data/access.toml", &path).expect("a link");
        let followed = Followed::open(&path, 0).expect("a file");
        symlink("2", dir.path().join("..data_tmp")).expect("a link");
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).expect("renamed");
        assert_eq!((followed.follow(0), followed.follow(0)), (Look::Nothing, Look::Applied));
        assert!(has(&followed, "new"));
    }

    #[cfg(feature = "jwt")]
    #[test]
    fn the_files_of_keys_are_followed_too() {
        let dir = tempfile::tempdir().expect("a directory");
        let keys = |x: &str| {
            let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}"}}]}}"#);
            fs::write(dir.path().join("jwks.new"), set).expect("written");
            fs::rename(dir.path().join("jwks.new"), dir.path().join("jwks.json")).expect("renamed");
        };
        let file = format!(
            "[[jwt]]\nissuer = \"i\"\nkeys = \"jwks.json\"\naudience = \"a\"\n{}",
            principal("p")
        );
        let first = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        let second = "21qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
        keys(first);
        let followed = Followed::open(&put(&dir, &file), 0).expect("a file");
        let before = followed.current().load().content();
        keys(second);
        assert_eq!((followed.follow(0), followed.follow(0)), (Look::Nothing, Look::Applied));
        assert_ne!(followed.current().load().content(), before);
        fs::remove_file(dir.path().join("jwks.json")).expect("removed");
        assert_eq!(followed.follow(0), Look::Nothing);
        assert!(matches!(followed.follow(0), Look::Refused(_)), "the keys are gone");
        keys(first);
        assert_eq!((followed.follow(0), followed.follow(0)), (Look::Nothing, Look::Applied));
        assert_eq!(followed.current().load().content(), before);
    }
}
