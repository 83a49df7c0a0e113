//! A test disables the guardian, to show that overlaps are then found.

/// Whether `TENURE_TEST_NO_GUARDIAN` is set.
pub(super) fn is_broken() -> bool {
    std::env::var_os("TENURE_TEST_NO_GUARDIAN").is_some()
}
