//! Takes lines, and gives them to the thread that writes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    budget::Budgets,
    chain::Chain,
    entry::{AuditEntry, AuditEvent},
    kept::{Heads, Kept},
    lacks::{Lacks, LostLines},
    lines::{CallLine, ChangeLine},
    queue::Queue,
    trail::{AuditError, Trail, older},
    writer::Writer,
};
use crate::clock::Clock;

/// How long an order waits for its line. A disk that takes longer counts as a disk that cannot keep the line.
const PATIENCE: Duration = Duration::from_secs(2);

/// The files of an audit log.
#[derive(Clone, Debug)]
pub struct AuditFiles {
    /// The file of refusals and reads. That of changes has the same name, and `.changes` after it.
    pub path: PathBuf,
    /// The size at which a file is renamed, and a new one begins.
    pub max_size: u64,
    /// How many renamed files of each kind are kept.
    pub keep: u32,
    /// Whether an order whose line cannot be kept is refused.
    pub required: bool,
    /// The directory in which the last lines are remembered, apart from the files.
    pub heads: Option<PathBuf>,
}

/// The line of an order cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unkept;

/// The audit log, for those who write to it.
pub struct AuditLog {
    queue: Arc<Queue<CallLine, ChangeLine>>,
    budgets: Arc<Budgets>,
    lacks: Arc<Lacks>,
    clock: Arc<dyn Clock>,
    required: bool,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    /// Opens the files and continues their chains, or makes them.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn open(files: &AuditFiles, clock: Arc<dyn Clock>) -> Result<Self, AuditError> {
        let AuditFiles { path, max_size, keep, required, heads } = files;
        let kept = heads.as_deref().map(|dir| Kept::new(dir, path));
        let holds = |file: PathBuf| fs::metadata(file).is_ok_and(|found| found.len() > 0);
        let has_lines = |chain| {
            let file = file_of(path, chain);
            holds(older(&file, 1)) || holds(file)
        };
        let has_lines = Chain::ALL.into_iter().any(has_lines);
        let read = kept.as_ref().map_or(Some(Heads::default()), |kept| kept.read(has_lines));
        let lacks = Arc::new(Lacks::new());
        if read.is_none() {
            lacks.gap(clock.now());
        }
        let written = read.unwrap_or_default();
        let open = |chain| {
            let written = Heads::of(&written, chain);
            Trail::open(chain, &file_of(path, chain), (*max_size, *keep), written)
        };
        let trails = [open(Chain::Calls)?, open(Chain::Changes)?];
        let (queue, budgets) = (Arc::new(Queue::default()), Arc::new(Budgets::default()));
        let writer = Writer::new(trails, kept, budgets.clone(), lacks.clone(), clock.clone());
        let lines = queue.clone();
        let spawned = std::thread::Builder::new().name("audit".into()).spawn(|| writer.run(lines));
        let writer = spawned.map_err(|source| AuditError::Io { path: path.to_owned(), source })?;
        let writer = Mutex::new(Some(writer));
        Ok(Self { queue, budgets, lacks, clock, required: *required, writer })
    }

    /// Records a call. Never waits. Beyond the budget of its principal, a refusal or a read is counted in a line of many. A
    /// line that finds no place is lost, and counted.
    pub fn record(&self, entry: AuditEntry) {
        let (now, wall_ms) = (self.clock.now(), self.clock.wall_ms());
        let (chain, is_kept) = match entry.event {
            AuditEvent::Change | AuditEvent::Intent => {
                // An order with such an answer was not carried out.
                let is_in_vain = entry.status.is_some_and(|status| (400..500).contains(&status));
                let is_counted = is_in_vain && !self.budgets.take(&entry, now, wall_ms);
                let line = ChangeLine { wall_ms, entry: Box::new(entry), kept: None };
                (Chain::Changes, is_counted || self.queue.add_change(line).is_ok())
            }
            AuditEvent::Refused | AuditEvent::Read => {
                let is_kept = !self.budgets.take(&entry, now, wall_ms)
                    || self.queue.add_call((wall_ms, Box::new(entry))).is_ok();
                (Chain::Calls, is_kept)
            }
        };
        if !is_kept {
            self.lacks.lose(chain, now);
        }
    }

    /// Whether an order must have a durable line before it is carried out.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Writes that an order is about to be carried out. It may be, once this has returned.
    ///
    /// # Errors
    /// The line is not durable. The order must not be carried out.
    pub async fn intend(&self, entry: AuditEntry) -> Result<(), Unkept> {
        let (kept, outcome) = oneshot::channel();
        let (wall_ms, entry) = (self.clock.wall_ms(), Box::new(entry));
        let line = ChangeLine { wall_ms, entry, kept: Some(kept) };
        self.queue.add_change(line).map_err(|_| Unkept)?;
        match tokio::time::timeout(PATIENCE, outcome).await {
            Ok(Ok(true)) => Ok(()),
            _ => Err(Unkept),
        }
    }

    /// The lines that were lost since the log was opened, if any were.
    pub fn lost(&self) -> Option<LostLines> {
        self.lacks.lost()
    }

    /// The ends of chains that were found to be gone since the log was opened, if any were.
    pub fn gaps(&self) -> Option<LostLines> {
        self.lacks.gaps()
    }

    /// Writes what waits, and ends. Blocks. Lines that are recorded later are lost.
    pub fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            self.queue.close();
            let _ = writer.join();
        }
    }
}

/// The file of a chain.
pub(super) fn file_of(path: &Path, chain: Chain) -> PathBuf {
    match chain {
        Chain::Calls => path.to_owned(),
        Chain::Changes => {
            let mut name = path.as_os_str().to_owned();
            name.push(".changes");
            name.into()
        }
    }
}
