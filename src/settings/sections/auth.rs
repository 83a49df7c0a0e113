//! `[auth]`: who may call the coordinator.

use std::path::PathBuf;

use super::super::table::section;

section! {
    /// The section `[auth]`: who may call the coordinator.
    pub struct Auth {
        /// File with the principals: who they are, how they prove it, and which calls they may make for which keys
        /// (docs/access.md). "tenure access init" writes one. Empty: every caller may make every call.
        file: PathBuf = PathBuf::new();
    }
}
