//! The content of the access file and of the files of keys that it names, and who else may read them.

use std::{path::Path, sync::Arc};

use rustix::process::Uid;

use crate::{
    files::read_guarded,
    settings::{Fault, Origin},
};

/// The largest file, in bytes: some ten thousand principals.
const MAX_BYTES: u64 = 16 << 20;
/// The bits of a mode for the users who may read the file beside its owner.
const OTHERS_READ: u32 = 0o044;

/// The content of the access file, and a warning.
pub(super) fn read(path: &Path, user: Uid) -> Result<(String, Option<String>), Fault> {
    let (content, mode) = guarded(path, MAX_BYTES, user).map_err(|problem| Fault {
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

/// The text and the mode of a file that nobody may write or replace but root and this user.
pub(super) fn guarded(path: &Path, most: u64, user: Uid) -> Result<(String, u32), String> {
    let (content, mode) = read_guarded(path, most, user)?;
    let text = String::from_utf8(content);
    Ok((text.map_err(|_| "cannot be read: it is not UTF-8".to_owned())?, mode))
}
