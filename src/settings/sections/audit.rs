//! `[audit]`: the audit log.

use std::path::PathBuf;

use super::super::{table::section, units::ByteSize};

/// The smallest file: it holds a few lines.
const LEAST: ByteSize = ByteSize(64 << 10);

section! {
    /// The section `[audit]`: the file of the audit log, and its rotation.
    pub struct Audit {
        /// File of the audit log: refused calls, calls of administrators and administrative reads, as JSON lines in a
        /// hash chain that `tenure audit verify` checks. Each coordinator needs a file of its own. Empty: no audit log.
        /// Calls of administrators are in a file of their own, FILE.changes.
        file: PathBuf = PathBuf::new();
        /// Size at which the file is renamed to FILE.1, FILE.1 to FILE.2 and so on, and a new file begins.
        max_size: ByteSize = ByteSize::mib(64), in LEAST..=ByteSize::mib(1 << 20);
        /// Number of renamed files of each kind that are kept.
        keep: u32 = 10, in 1..=1000;
        /// Whether a call of an administrator is refused (503 `audit-unavailable`) when its line cannot be kept. A line
        /// (`intent`) is then on disk before anything changes. Needs `audit.file`.
        required: bool = false, if without_file;
    }
}

fn without_file(audit: &Audit) -> Option<&'static str> {
    let alone = audit.required && audit.file.as_os_str().is_empty();
    alone.then_some("needs audit.file: without a file, no line can be kept")
}
