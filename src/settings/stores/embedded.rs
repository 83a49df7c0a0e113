//! `[store.embedded]`: files in a local directory.

use std::path::PathBuf;

use super::super::{table::section, units::ByteSize};

/// The smallest file, and the smallest log.
const LEAST: ByteSize = ByteSize(64 << 10);

section! {
    /// The section `[store.embedded]`: the directory, and the sizes of its files.
    pub struct Embedded {
        /// Directory of the files. Created if absent, and locked while in use.
        data_dir: PathBuf = "./tenure-data".into(), if no_directory;
        /// Size of one log file. Disk space is allocated in whole files.
        segment_size: ByteSize = ByteSize::mib(4), in LEAST..=ByteSize::mib(256);
        /// Minimum size of the retained log, which is also the event history. Outdated records beyond it are removed.
        min_log_size: ByteSize = ByteSize::mib(32), in LEAST..=ByteSize::mib(1 << 20);
    }
}

fn no_directory(embedded: &Embedded) -> Option<String> {
    embedded.data_dir.as_os_str().is_empty().then(|| "must not be empty".to_owned())
}
