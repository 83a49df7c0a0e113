//! The versions of the proof on calls between nodes. A node publishes the newest one that it knows in its record, so that
//! others neither speak a newer one to it, nor accept an older one from it.

use std::borrow::Cow;

#[cfg(feature = "testing")]
#[path = "../../../tests/doors/seal_versions.rs"]
mod door;

/// The versions that this program writes and reads, newest first. A version is read for as long as nodes that write no
/// newer one may live.
const VERSIONS: &[u8] = &[2, 1];

/// The versions that this program writes and reads, newest first, unless a test sets others.
pub fn seal_versions() -> Cow<'static, [u8]> {
    #[cfg(feature = "testing")]
    if let Some(versions) = door::versions() {
        return versions.into();
    }
    VERSIONS.into()
}
