//! Group commit: one sync for all writes that wait, and an answer only after it.

use std::collections::{BTreeMap, VecDeque};

use tenure::{
    lease::{Key, Revision, StoreError},
    store::{FeedBatch, Write, WriteOutcome},
};
use tokio::{sync::oneshot, time::sleep};

use super::{
    Server, State,
    shape::{Flaw, Kind, TAIL, happens, span},
    state::{ProcessId, Sent},
};
use crate::history::{Event, Sight};

/// A disk that hangs looks up so often, and for at most so many times.
const HANG_MS: u64 = 250;
const HANGS: u32 = 240;

/// What became of a job.
#[derive(Debug)]
pub(super) enum Verdict {
    Settled(WriteOutcome),
    /// Read what is there.
    Conflict,
}

/// A write on its way to the disk.
pub(super) struct Job {
    pub write: Write,
    /// The key goes away.
    pub forgets: bool,
    pub sent: Sent,
    pub reply: oneshot::Sender<Verdict>,
}

/// The writer's state.
#[derive(Default)]
pub(super) struct Disk {
    queue: VecDeque<Job>,
    group: Vec<(Job, Revision)>,
    conflicts: Vec<oneshot::Sender<Verdict>>,
    /// The writer is at work, as this one of all that there were.
    writing: Option<u64>,
    writers: u64,
    /// The next sync fails.
    pub fails: bool,
    pub failed: Option<StoreError>,
    /// Written and not synced when a sync failed: a restart finds some of it.
    unsynced: Vec<(Job, Revision)>,
}

impl Disk {
    /// A new process reads the log again.
    pub fn reopened(&mut self) {
        (self.failed, self.fails) = (None, false);
    }
}

impl Server {
    /// Takes a write in; it is on its way when this returns.
    pub(super) fn enqueue(&self, process: ProcessId, job: Job) -> Result<(), StoreError> {
        let mut state = self.lock();
        if !state.processes.contains_key(&process) {
            return Err(StoreError::Unavailable("the store is closed".to_owned()));
        }
        if let Some(why) = &state.disk.failed {
            return Err(why.clone());
        }
        state.disk.queue.push_back(job);
        if state.disk.writing.is_none() {
            state.disk.writers += 1;
            let me = state.disk.writers;
            state.disk.writing = Some(me);
            tokio::spawn(work(self.clone(), me));
        }
        Ok(())
    }

    /// The process died. Of what it wrote and did not sync, a part is there: all up to some point.
    pub(super) fn lose_unsynced(&self) {
        let mut state = self.lock();
        state.disk.writing = None;
        state.disk.queue.clear();
        state.disk.conflicts.clear();
        let mut group = std::mem::take(&mut state.disk.unsynced);
        group.extend(std::mem::take(&mut state.disk.group));
        let survive = state.draw(group.len() as u64 + 1);
        let told: Vec<Event> = (0..survive)
            .zip(group)
            .flat_map(|(_, (job, revision))| state.commit(&job, revision))
            .collect();
        // Numbers of writes that were lost are given again.
        state.data.sequence = state.data.durable;
        drop(state);
        self.write_down(told);
    }

    /// The process closed the store: what waits is written.
    pub(super) fn settle(&self) {
        let writing = self.lock().disk.writing;
        if let Some(me) = writing {
            self.finish(me);
            while self.begin(me) {
                self.finish(me);
            }
        }
        // Of what a failed sync left, whoever opens the store next finds a part.
        if !self.lock().disk.unsynced.is_empty() {
            self.lose_unsynced();
        }
    }

    /// Judges what waits; `false` when nothing does.
    fn begin(&self, me: u64) -> bool {
        let mut state = self.lock();
        if state.disk.writing != Some(me) {
            return false;
        }
        let jobs = std::mem::take(&mut state.disk.queue);
        let nothing = jobs.is_empty();
        let mut known = BTreeMap::new();
        for job in jobs {
            state.judge(job, &mut known);
        }
        if nothing {
            state.disk.writing = None;
        }
        !nothing
    }

    /// The group is durable, or its sync failed.
    fn finish(&self, me: u64) {
        let mut state = self.lock();
        if state.disk.writing != Some(me) {
            return;
        }
        let group = std::mem::take(&mut state.disk.group);
        let conflicts = std::mem::take(&mut state.disk.conflicts);
        if std::mem::take(&mut state.disk.fails) && !group.is_empty() {
            return self.stop_for_good(state, group, conflicts);
        }
        let (mut told, mut news, mut replies) = (Vec::new(), Vec::new(), Vec::new());
        for (job, revision) in group {
            told.extend(state.commit(&job, revision));
            if let Some(entry) = state.data.log.get(&revision.0) {
                news.extend(entry.changes.iter().cloned());
            }
            replies.push((job.reply, revision));
        }
        let history = state.shape.history;
        state.data.trim(Kind::Embedded, history);
        let early = state.shape.flaw == Flaw::PublishesEarly;
        if let Some(view) = state.processes.values().next()
            && !news.is_empty()
            && !early
        {
            // Nobody listening is no fault.
            let _ = view.feed.send(FeedBatch::Changes(news.into()));
        }
        drop(state);
        self.write_down(told);
        for (reply, revision) in replies {
            let _ = reply.send(Verdict::Settled(WriteOutcome::Committed(revision)));
        }
        for reply in conflicts {
            let _ = reply.send(Verdict::Conflict);
        }
    }

    /// A sync that failed once proves nothing when it succeeds later.
    fn stop_for_good(
        &self,
        mut state: std::sync::MutexGuard<'_, State>,
        group: Vec<(Job, Revision)>,
        conflicts: Vec<oneshot::Sender<Verdict>>,
    ) {
        let why = StoreError::Unavailable("the log cannot be written; a restart is needed".into());
        state.disk.failed = Some(why.clone());
        let queue = std::mem::take(&mut state.disk.queue);
        for (mut job, revision) in group {
            let (nobody, _) = oneshot::channel();
            let reply = std::mem::replace(&mut job.reply, nobody);
            state.disk.unsynced.push((job, revision));
            let _ = reply.send(Verdict::Settled(WriteOutcome::Unknown(why.clone())));
        }
        drop(state);
        self.saw(Sight::Ambiguous);
        let waiting = queue.into_iter().map(|job| job.reply);
        for reply in conflicts.into_iter().chain(waiting) {
            let _ = reply.send(Verdict::Settled(WriteOutcome::Refused(why.clone())));
        }
    }
}

/// Writes until nothing waits.
async fn work(server: Server, me: u64) {
    while server.begin(me) {
        let pause = {
            let mut state = server.lock();
            let range = state.slow.unwrap_or(state.shape.sync);
            let pause = span(&mut state.chance, range);
            let tail = state.shape.tail;
            if happens(&mut state.chance, tail) { (pause * 100).min(TAIL) } else { pause }
        };
        sleep(pause).await;
        for _ in 0..HANGS {
            if !server.lock().stopped {
                break;
            }
            sleep(std::time::Duration::from_millis(HANG_MS)).await;
        }
        server.finish(me);
    }
}

impl State {
    /// Puts a write into the group, or answers it.
    fn judge(&mut self, job: Job, known: &mut BTreeMap<Key, Revision>) {
        let key = &job.write.key;
        let there = known.get(key).copied().unwrap_or_else(|| self.data.revision(key));
        if there != job.write.expected {
            return self.disk.conflicts.push(job.reply);
        }
        if let Some(room) = &mut self.room {
            if *room == 0 {
                let why = StoreError::Full("no space left on device".to_owned());
                let _ = job.reply.send(Verdict::Settled(WriteOutcome::Refused(why)));
                return;
            }
            *room -= 1;
        }
        let revision = self.data.next();
        known.insert(key.clone(), if job.forgets { Revision::ABSENT } else { revision });
        if self.shape.flaw == Flaw::PublishesEarly {
            self.publish_early(&job.write, revision, job.sent);
        }
        self.disk.group.push((job, revision));
    }

    fn publish_early(&self, write: &Write, revision: Revision, sent: Sent) {
        let mut copy = super::Data::new(self.data.meta.identity);
        copy.put(Kind::Embedded, write, revision, sent, 0, 1);
        let changes = copy.log.into_values().flat_map(|entry| entry.changes);
        let changes: Vec<_> = changes.collect();
        if let Some(view) = self.processes.values().next()
            && !changes.is_empty()
        {
            let _ = view.feed.send(FeedBatch::Changes(changes.into()));
        }
    }

    /// Makes a write of the log durable.
    fn commit(&mut self, job: &Job, revision: Revision) -> Vec<Event> {
        self.data.durable = revision.0;
        if job.forgets {
            self.data.items.remove(&job.write.key);
            return Vec::new();
        }
        self.data.put(Kind::Embedded, &job.write, revision, job.sent, 0, usize::MAX)
    }
}
