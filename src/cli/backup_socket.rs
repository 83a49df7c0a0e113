//! Backups of an embedded store while its coordinator serves. The coordinator writes them to a socket in the directory of the
//! store, and `tenure backup` reads them there.
//!
//! Guarantees: only the coordinator's user and root connect, who can read the directory anyway. One backup is written at a
//! time. A reader that takes nothing for a minute is given up. A backup that ends early never looks complete.
//!
//! Does not guarantee: one moment. Each record is what it was when it was read, as in a backup of a shared store.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::{
    backup_file::{Copy, Header, Writer},
    backup_store::{Progress, write_store},
    socket::{self, SocketFile},
};
use crate::store::LeaseStore;

/// The file of the socket.
const NAME: &str = "backup.sock";
const MODE: u32 = 0o600;
const BACKLOG: i32 = 8;
/// How long a reader may take to say what it wants.
const ASK: Duration = Duration::from_secs(10);
/// How long a reader may take nothing.
const STALL: Duration = Duration::from_mins(1);
/// The longest line that a reader may send, in bytes.
const MAX_ASK_BYTES: u64 = 1024;

/// What a reader wants.
#[derive(Serialize, Deserialize)]
struct Ask {
    skip_unreadable: bool,
}

/// The line behind the backup.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Complete { keys: u64, skipped: u64 },
    Failed(String),
}

/// The socket of a coordinator. Dropping it removes the file.
pub(super) struct BackupSocket {
    path: PathBuf,
    ends: Arc<AtomicBool>,
    _file: SocketFile,
}

impl BackupSocket {
    /// Listens in the directory of the store, on a separate thread.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(super) fn open(
        dir: &Path,
        kind: &'static str,
        store: Arc<dyn LeaseStore>,
    ) -> io::Result<Self> {
        let path = dir.join(NAME);
        let (listener, file) = socket::listen(&path, BACKLOG, MODE)?;
        let ends = Arc::new(AtomicBool::new(false));
        let ended = ends.clone();
        std::thread::Builder::new().name("backup".into()).spawn(move || {
            for peer in listener.incoming() {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let served = peer.map_err(anyhow::Error::from);
                if let Err(error) = served.and_then(|peer| serve(&peer, kind, &store)) {
                    tracing::warn!("a backup was not written: {error:#}");
                }
            }
        })?;
        Ok(Self { path, ends, _file: file })
    }
}

impl Drop for BackupSocket {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes the thread.
        drop(UnixStream::connect(&self.path));
    }
}

fn serve(
    mut peer: &UnixStream,
    kind: &'static str,
    store: &Arc<dyn LeaseStore>,
) -> anyhow::Result<()> {
    peer.set_read_timeout(Some(ASK))?;
    peer.set_write_timeout(Some(STALL))?;
    let mut line = String::new();
    BufReader::new(peer.take(MAX_ASK_BYTES)).read_line(&mut line)?;
    let ask: Ask = serde_json::from_str(&line).context("what is wanted cannot be read")?;
    let said = match write(peer, kind, &**store, ask.skip_unreadable) {
        Ok((keys, skipped)) => {
            tracing::info!(keys, skipped, "a backup was written");
            Said::Complete { keys, skipped }
        }
        Err(error) => Said::Failed(format!("{error:#}")),
    };
    let mut line = serde_json::to_vec(&said)?;
    line.push(b'\n');
    peer.write_all(&line)?;
    match said {
        Said::Complete { .. } => Ok(()),
        Said::Failed(why) => Err(anyhow::anyhow!(why)),
    }
}

fn write(
    peer: &UnixStream,
    kind: &str,
    store: &dyn LeaseStore,
    skip_unreadable: bool,
) -> anyhow::Result<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let header = Header::of(kind, store)?;
    let writer = Writer::into(Box::new(io::BufWriter::new(peer.try_clone()?)), &header)?;
    runtime.block_on(write_store(store, writer, skip_unreadable, Progress::hidden()))
}

/// Fetches a backup from the coordinator that serves the store of this directory.
///
/// # Errors
/// No coordinator answers, or the backup did not become complete.
pub(super) fn fetch(
    dir: &Path,
    file: Option<&Path>,
    skip_unreadable: bool,
) -> anyhow::Result<(u64, u64)> {
    let path = dir.join(NAME);
    let mut peer = UnixStream::connect(&path).with_context(|| {
        format!("the coordinator that uses the store does not answer at {}", path.display())
    })?;
    peer.set_read_timeout(Some(STALL))?;
    let mut ask = serde_json::to_vec(&Ask { skip_unreadable })?;
    ask.push(b'\n');
    peer.write_all(&ask)?;
    let (mut copy, progress) = (Copy::create(file)?, Progress::shown());
    let mut lines = BufReader::new(peer);
    loop {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line)?;
        anyhow::ensure!(
            line.ends_with(b"\n"),
            "the coordinator ended before the backup was complete"
        );
        match serde_json::from_slice(&line) {
            Ok(Said::Complete { keys, skipped }) => {
                anyhow::ensure!(copy.finish()? == keys, "the coordinator left out keys");
                return Ok((keys, skipped));
            }
            Ok(Said::Failed(why)) => anyhow::bail!("the coordinator says: {why}"),
            Err(_) => {
                copy.line(line)?;
                progress.advance(1);
            }
        }
    }
}
