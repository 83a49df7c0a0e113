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
        file: PathBuf = PathBuf::new();
        /// Size at which the file is renamed to FILE.1, FILE.1 to FILE.2 and so on, and a new file begins.
        max_size: ByteSize = ByteSize::mib(64), in LEAST..=ByteSize::mib(1 << 20);
        /// Number of renamed files that are kept.
        keep: u32 = 10, in 1..=1000;
    }
}
