//! The file itself and those that it names: their content, and who else may read or change them.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use crate::settings::{Fault, Origin};

/// The largest file, in bytes: some ten thousand principals.
const MAX_BYTES: u64 = 16 << 20;
/// The mode's bits for those who may change the file besides its owner, and for those who may read it.
const OTHERS_WRITE: u32 = 0o022;
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

/// The content and the mode of a file that has at most so many bytes, and that nobody but its owner may write.
pub(super) fn guarded(path: &Path, most: u64) -> Result<(String, u32), String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    // The mode of the very file that is read, whatever the path leads to later.
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & OTHERS_WRITE != 0 {
        return Err(format!(
            "has mode {:04o}, so others than its owner could give themselves rights: chmod 600 {}",
            mode & 0o7777,
            path.display()
        ));
    }
    let mut content = String::new();
    (&file).take(most + 1).read_to_string(&mut content).map_err(unreadable)?;
    if content.len() as u64 > most {
        return Err(format!("is longer than {most} bytes"));
    }
    Ok((content, mode))
}
