//! The directories and links on the way to a file. A user that may write one of them may put another file into its place.

use std::{
    ffi::OsString,
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Component, Path, PathBuf},
};

use rustix::{io::Errno, process::Uid};

/// The largest number of links on the way to a file, as the kernel has it.
const MOST_LINKS: usize = 40;
/// The bits of a mode for the users who may change a file or a directory beside its owner.
pub(super) const OTHERS_WRITE: u32 = 0o022;
/// The bit of a directory in which no user may replace the files of another one.
const STICKY: u32 = 0o1000;

/// A directory or a link in which the next part of the way is looked up.
pub(super) struct Step {
    path: PathBuf,
    is_link: bool,
    mode: u32,
    owner: u32,
}

impl Step {
    fn new(path: &Path, metadata: &Metadata) -> Self {
        let (is_link, path) = (metadata.is_symlink(), path.to_owned());
        Self { path, is_link, mode: metadata.mode(), owner: metadata.uid() }
    }

    /// The mode and the owner.
    pub(super) fn rights(&self) -> [u32; 2] {
        [self.mode, self.owner]
    }

    /// Why another user than root and this one could put another file into the place of the one at the end of the way, if
    /// one could.
    pub(super) fn replaceable(&self, user: Uid) -> Option<String> {
        let Self { path, is_link, mode, owner } = self;
        let (path, kind) = (path.display(), if *is_link { "link" } else { "directory" });
        if *owner != 0 && *owner != user.as_raw() {
            return Some(format!(
                "is reached by the {kind} {path} of the user with uid {owner}, who could replace it: chown {path} to root \
                 or to the user that tenure runs as"
            ));
        }
        // The mode of a link means nothing.
        (!is_link && mode & OTHERS_WRITE != 0 && mode & STICKY == 0).then(|| {
            format!(
                "is reached by a directory of mode {:04o}, so others than its owner could replace it: chmod go-w {path}",
                mode & 0o7777
            )
        })
    }
}

/// The steps of the way to a file, from the root on.
pub(super) fn to(path: &Path) -> io::Result<Vec<Step>> {
    let (mut at, mut left) = (PathBuf::new(), parts(&std::path::absolute(path)?));
    let (mut steps, mut links) = (Vec::new(), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let metadata = next.symlink_metadata()?;
        if metadata.is_symlink() || metadata.is_dir() {
            steps.push(Step::new(&next, &metadata));
        }
        if metadata.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            left.extend(parts(&next.read_link()?));
        } else {
            at = next;
        }
    }
    Ok(steps)
}

/// The parts of a path. The last one comes first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter(|part| *part != Component::CurDir);
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use rustix::process::geteuid;

    use super::*;

    fn why(path: &Path) -> Option<String> {
        to(path).expect("a way").iter().find_map(|step| step.replaceable(geteuid()))
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    }

    #[test]
    fn each_directory_and_each_link_on_the_way_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        for inner in ["one/two", "away/far", "other"] {
            fs::create_dir_all(at(inner)).expect("directories");
        }
        // one/two/access → ../link/access, one/link → other/again, other/again → away/far
        fs::write(at("away/far/access"), "").expect("a file");
        symlink("../link/access", at("one/two/access")).expect("a link");
        symlink(at("other/again"), at("one/link")).expect("a link");
        symlink("../away/far", at("other/again")).expect("a link");
        let path = at("one/two/access");
        assert_eq!(why(&path), None);
        for inner in ["one", "one/two", "other", "away", "away/far"] {
            set_mode(&at(inner), 0o777);
            let found = why(&path).expect("others could replace it");
            assert!(found.ends_with(&format!("chmod go-w {}", at(inner).display())), "{found}");
            set_mode(&at(inner), 0o1777);
            assert_eq!(why(&path), None, "{inner} is sticky");
            set_mode(&at(inner), 0o755);
        }
        for mut step in to(&path).expect("a way") {
            step.owner = if step.owner == 12_345 { 12_346 } else { 12_345 };
            let (kind, found) =
                (if step.is_link { "link" } else { "directory" }, step.replaceable(geteuid()));
            let says = format!("is reached by the {kind} {} of the user", step.path.display());
            assert!(found.as_ref().is_some_and(|found| found.starts_with(&says)), "{found:?}");
        }
        let links = ["one/link", "other/again", "one/two/access"];
        assert!(links.iter().all(|link| {
            to(&path).expect("a way").iter().any(|step| step.is_link && step.path == at(link))
        }));
    }

    #[test]
    fn a_link_to_itself_and_a_missing_file_have_no_way() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("access");
        assert_eq!(to(&path).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
        symlink("access", &path).expect("a link");
        let error = to(&path).err().and_then(|error| error.raw_os_error());
        assert_eq!(error, Some(Errno::LOOP.raw_os_error()));
    }
}
