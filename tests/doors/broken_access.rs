//! Lets a test break one right, by its name in `TENURE_TEST_BROKEN_ACCESS`.

use std::sync::OnceLock;

pub(super) fn is_active(name: &str) -> bool {
    static ACTIVE: OnceLock<Option<String>> = OnceLock::new();
    let active = ACTIVE.get_or_init(|| std::env::var("TENURE_TEST_BROKEN_ACCESS").ok());
    active.as_deref() == Some(name)
}
