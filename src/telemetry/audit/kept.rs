//! The last line of each chain, kept apart from the files of the log.
//!
//! Guarantees: the place that is kept is that of a line which was durable when it was kept. So files that end before it
//! have lost lines that no crash takes.
//!
//! Does not guarantee: to notice anything where somebody may write this file too, or where it was removed.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::chain::{Chain, Head};

/// How the names of these files begin and end.
pub const KEPT_PREFIX: &str = "audit-";
pub const KEPT_SUFFIX: &str = ".head";
/// The longest file that is read.
const MOST: u64 = 4096;

/// The places of the last lines of one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    pub calls: Option<Head>,
    pub changes: Option<Head>,
}

impl Heads {
    pub(super) fn of(&self, chain: Chain) -> Option<Head> {
        match chain {
            Chain::Calls => self.calls,
            Chain::Changes => self.changes,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Content {
    /// The file of the log, for people.
    log: PathBuf,
    calls: Option<String>,
    changes: Option<String>,
}

/// The file that keeps these places.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    path: PathBuf,
    log: PathBuf,
}

impl Kept {
    /// The file for this log in a directory, which need not exist yet.
    pub(super) fn new(dir: &Path, log: &Path) -> Self {
        let log = std::path::absolute(log).unwrap_or_else(|_| log.to_owned());
        let name = Sha256::digest(log.as_os_str().as_encoded_bytes());
        let name: String = name.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { path: dir.join(format!("{KEPT_PREFIX}{name}{KEPT_SUFFIX}")), log }
    }

    /// The places that are kept; `None` if there must be places, because the log has lines, and they are not known.
    pub(super) fn read(&self, has_lines: bool) -> Option<Heads> {
        match self.try_read() {
            Ok(heads) => Some(heads),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !has_lines => {
                Some(Heads::default())
            }
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "the last lines of the audit log are not known: whether its end was cut \
                                               off cannot be told. The file is made anew");
                None
            }
        }
    }

    fn try_read(&self) -> io::Result<Heads> {
        let file = File::open(&self.path)?;
        let content: Content = serde_json::from_reader(io::Read::take(file, MOST))?;
        let head = |text: Option<String>| {
            let head = text.map(|text| text.parse().map_err(io::Error::other));
            head.transpose()
        };
        Ok(Heads { calls: head(content.calls)?, changes: head(content.changes)? })
    }

    /// Keeps other places. Nothing is kept as long as the directory does not exist.
    pub(super) fn write(&self, heads: &Heads) -> io::Result<()> {
        if !self.path.parent().is_some_and(Path::is_dir) {
            return Ok(());
        }
        let text = |head: Option<Head>| head.map(|head| head.to_string());
        let (calls, changes) = (text(heads.calls), text(heads.changes));
        let content = serde_json::to_vec(&Content { log: self.log.clone(), calls, changes })?;
        let part = self.path.with_extension("part");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(&content)?;
        file.sync_data()?;
        fs::rename(&part, &self.path)
    }
}
