//! The file itself: its content, and who else may read or change it.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path, sync::Arc};

use crate::settings::{Fault, Origin};

/// The largest file, in bytes: some ten thousand principals.
const MAX_BYTES: u64 = 16 << 20;
/// The mode's bits for those who may change the file besides its owner, and for those who may read it.
const OTHERS_WRITE: u32 = 0o022;
const OTHERS_READ: u32 = 0o044;

/// The content of the file, and what to look at.
pub(super) fn read(path: &Path) -> Result<(String, Option<String>), Fault> {
    let fault = |problem: String| Fault {
        origin: Origin::File { path: Arc::new(path.to_owned()), line: None },
        key: None,
        problem,
    };
    let unreadable = |error: std::io::Error| fault(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    // The mode of the very file that is read, whatever the path leads to later.
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & OTHERS_WRITE != 0 {
        return Err(fault(format!(
            "has mode {:04o}, so others than its owner could give themselves rights: chmod 600 {}",
            mode & 0o7777,
            path.display()
        )));
    }
    let mut content = String::new();
    (&file).take(MAX_BYTES + 1).read_to_string(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(fault(format!("is longer than {MAX_BYTES} bytes")));
    }
    let warning = (mode & OTHERS_READ != 0).then(|| {
        format!(
            "{} has mode {:04o}: others than its owner may read who may do what, though no token (chmod 600)",
            path.display(),
            mode & 0o7777
        )
    });
    Ok((content, warning))
}
