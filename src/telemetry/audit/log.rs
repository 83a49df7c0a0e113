//! The queue to the thread that writes.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use metrics::{Counter, counter};

use super::{
    chain::{Head, Said},
    entry::{AuditEntry, AuditEvent},
    trail::{AuditError, Trail},
};
use crate::{clock::Clock, lease::Moment};

/// How many lines may wait to be written. They take a few MiB at most.
const QUEUE: usize = 4096;
/// How often what was written is made durable, and how often lines that were lost are tried to be mentioned.
const SETTLE: Duration = Duration::from_secs(1);
/// How often the ordinary log has the digest of the last line.
const HEAD_EVERY: Duration = Duration::from_secs(60);
/// How many lines there may be at once of refused callers without a principal, and how many more with each second. They
/// must not push the lines of others out of the files that are kept.
const UNKNOWN: u64 = 1000;
const UNKNOWN_PER_SECOND: u64 = 20;
/// How often the ordinary log says that lines are lost.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);

enum Message {
    Line(u64, Box<AuditEntry>),
    End,
}

/// Lines that the audit log lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLines {
    /// How many were lost since it was opened.
    pub count: u64,
    /// When the latest was lost.
    pub latest: Moment,
}

/// Counts the lines that are lost.
struct Losses {
    /// Lines that are not mentioned yet.
    unmentioned: AtomicU64,
    count: AtomicU64,
    /// A reading of the clock.
    latest: AtomicU64,
    total: Counter,
}

impl Losses {
    fn add(&self, now: Moment) {
        self.unmentioned.fetch_add(1, Ordering::Relaxed);
        self.latest.fetch_max(now.0, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.increment(1);
    }
}

/// The audit log, for those who write to it.
pub struct AuditLog {
    queue: SyncSender<Message>,
    lost: Arc<Losses>,
    clock: Arc<dyn Clock>,
    /// How many more lines of unknown callers there may be, and since when.
    unknown: Mutex<(u64, Moment)>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AuditLog {
    /// Opens the file and continues its chain, or makes it. A file that would be longer than `max_size` is renamed, and
    /// `keep` such files are kept.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn open(
        path: &Path,
        max_size: u64,
        keep: u32,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AuditError> {
        let trail = Trail::open(path, max_size, keep)?;
        let (queue, lines) = sync_channel(QUEUE);
        let lost = Arc::new(Losses {
            unmentioned: AtomicU64::new(0),
            count: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            total: counter!("tenure_audit_lost_total"),
        });
        let now = clock.now();
        let writer = Writer {
            said: trail.head(),
            trail,
            lost: lost.clone(),
            clock: clock.clone(),
            why: None,
            is_unsynced: false,
            synced: now,
            head_at: now,
            complained: None,
        };
        let spawned = std::thread::Builder::new().name("audit".into()).spawn(|| writer.run(lines));
        let writer = spawned.map_err(|source| AuditError::Io { path: path.to_owned(), source })?;
        let unknown = Mutex::new((UNKNOWN, now));
        Ok(Self { queue, lost, clock, unknown, writer: Mutex::new(Some(writer)) })
    }

    /// Records a call. Never waits: if the writer cannot keep up, the line is lost and counted. So is that of a refused
    /// caller without a principal, beyond [`UNKNOWN`].
    pub fn record(&self, entry: AuditEntry) {
        let is_unknown = entry.event == AuditEvent::Refused && entry.principal.is_none();
        let line = Message::Line(self.clock.wall_ms(), Box::new(entry));
        if (is_unknown && !self.is_room_for_unknown()) || self.queue.try_send(line).is_err() {
            self.lost.add(self.clock.now());
        }
    }

    /// The lines that were lost since the log was opened, if any were.
    pub fn lost(&self) -> Option<LostLines> {
        let count = self.lost.count.load(Ordering::Relaxed);
        let latest = Moment(self.lost.latest.load(Ordering::Relaxed));
        (count > 0).then_some(LostLines { count, latest })
    }

    fn is_room_for_unknown(&self) -> bool {
        let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, since) = &mut *unknown;
        let seconds = self.clock.now().since(*since).as_secs();
        if seconds > 0 {
            *since = *since + Duration::from_secs(seconds);
            *left = seconds.saturating_mul(UNKNOWN_PER_SECOND).saturating_add(*left).min(UNKNOWN);
        }
        let is_room = *left > 0;
        *left = left.saturating_sub(1);
        is_room
    }

    /// Writes what waits, and ends. Blocks. Lines that are recorded later are lost.
    pub fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = self.queue.send(Message::End);
            let _ = writer.join();
        }
    }
}

/// The thread that writes.
struct Writer {
    trail: Trail,
    lost: Arc<Losses>,
    clock: Arc<dyn Clock>,
    /// Why the last line could not be written.
    why: Option<std::io::Error>,
    is_unsynced: bool,
    synced: Moment,
    /// The digest that the ordinary log had last, and when.
    said: Head,
    head_at: Moment,
    complained: Option<Moment>,
}

impl Writer {
    fn run(mut self, lines: Receiver<Message>) {
        loop {
            match lines.recv_timeout(SETTLE) {
                Ok(Message::Line(wall_ms, entry)) => self.write(wall_ms, &entry),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = self.clock.now();
            if now.since(self.synced) >= SETTLE {
                self.settle(now);
            }
        }
        self.mention_lost();
        self.sync();
        self.say_head();
    }

    fn write(&mut self, wall_ms: u64, entry: &AuditEntry) {
        if !self.mention_lost() || !self.append(wall_ms, &Said::Call(entry)) {
            self.lost.add(self.clock.now());
        }
    }

    /// Writes how many lines were lost, if any were. Returns whether none are left to mention.
    fn mention_lost(&mut self) -> bool {
        let lost = self.lost.unmentioned.swap(0, Ordering::Relaxed);
        if lost == 0 {
            return true;
        }
        let is_mentioned = self.append(self.clock.wall_ms(), &Said::Lost(lost));
        if !is_mentioned {
            self.lost.unmentioned.fetch_add(lost, Ordering::Relaxed);
        }
        self.complain(lost);
        is_mentioned
    }

    fn append(&mut self, wall_ms: u64, said: &Said<'_>) -> bool {
        match self.trail.append(wall_ms, said) {
            Ok(()) => {
                (self.why, self.is_unsynced) = (None, true);
                true
            }
            Err(why) => {
                self.why = Some(why);
                false
            }
        }
    }

    fn complain(&mut self, lost: u64) {
        let now = self.clock.now();
        if self.complained.is_some_and(|before| now.since(before) < COMPLAIN_EVERY) {
            return;
        }
        self.complained = Some(now);
        match &self.why {
            Some(why) => {
                tracing::error!(lost, %why, "audit lines are lost: the file cannot be written; free disk space")
            }
            None => tracing::error!(lost, "audit lines are lost: more came than could be written"),
        }
    }

    fn settle(&mut self, now: Moment) {
        self.synced = now;
        self.mention_lost();
        self.sync();
        if now.since(self.head_at) >= HEAD_EVERY {
            self.head_at = now;
            self.say_head();
        }
    }

    fn sync(&mut self) {
        if std::mem::take(&mut self.is_unsynced)
            && let Err(why) = self.trail.sync()
        {
            tracing::error!(%why, "audit lines may not survive a power failure: the file cannot be synced");
        }
    }

    /// Writes the digest of the last line to the ordinary log, if lines were written since.
    fn say_head(&mut self) {
        let head = self.trail.head();
        if head != self.said {
            self.said = head;
            tracing::info!(%head, "audit log head");
        }
    }
}
