//! A test has a program that also knows a version of calls between nodes which this one does not.

/// The versions that `TENURE_TEST_SEAL` gives, newest first: `3,2,1`.
pub(super) fn versions() -> Option<Vec<u8>> {
    let listed = std::env::var("TENURE_TEST_SEAL").ok()?;
    listed.split(',').map(|version| version.parse().ok()).collect()
}
