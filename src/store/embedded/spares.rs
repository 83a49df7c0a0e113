//! Segments made ahead of their use, by a thread of their own, so that a write never waits for zeros to be
//! written.

use std::{
    collections::VecDeque,
    fs::File,
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{super::StoreError, disk::Disk, segment::Segment};

/// How many segments are kept ready: one to take while the next is made.
pub(super) const READY: usize = 2;
/// How long after a failure the next attempt is made.
const RETRY: Duration = Duration::from_millis(250);

/// An empty segment file that is ready for use.
#[derive(Debug)]
pub(super) struct Spare {
    pub id: u64,
    pub file: File,
}

/// The spare segments. The writer takes them, and a thread makes them.
#[derive(Debug)]
pub(super) struct Spares {
    pub dir: PathBuf,
    pub segment_bytes: u32,
    pub disk: Arc<dyn Disk>,
    state: Mutex<State>,
    /// There is work to do, or it is time to stop.
    work: Condvar,
    /// A segment was made, or could not be made.
    made: Condvar,
}

#[derive(Debug)]
struct State {
    ready: VecDeque<Spare>,
    retired: VecDeque<Arc<Segment>>,
    next_id: u64,
    failure: Option<StoreError>,
    /// The writer has been refused a segment since the last success.
    refused: bool,
    stop: bool,
}

/// The result of a step of the thread's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Something,
    Nothing,
    Fail,
}

impl Spares {
    pub fn new(
        dir: PathBuf,
        segment_bytes: u32,
        disk: Arc<dyn Disk>,
        ready: VecDeque<Spare>,
        next_id: u64,
    ) -> Self {
        let (retired, failure) = (VecDeque::new(), None);
        let state = State { ready, retired, next_id, failure, refused: false, stop: false };
        let (work, made) = (Condvar::new(), Condvar::new());
        Self { dir, segment_bytes, disk, state: Mutex::new(state), work, made }
    }

    /// Takes the next spare. Waits while one is being made. Fails if none can be made.
    pub fn take(&self) -> Result<Spare, StoreError> {
        let mut state = self.lock();
        loop {
            if let Some(spare) = state.ready.pop_front() {
                self.work.notify_one();
                return Ok(spare);
            }
            if let Some(failure) = state.failure.clone() {
                state.refused = true;
                return Err(failure);
            }
            if state.stop {
                return Err(StoreError::Unavailable("the store is closed".to_owned()));
            }
            state = self.made.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Hands over a segment that the log no longer needs.
    pub fn retire(&self, segment: Arc<Segment>) {
        self.lock().retired.push_back(segment);
        self.work.notify_one();
    }

    /// Why writes are refused for lack of a segment, if they are.
    pub fn fault(&self) -> Option<StoreError> {
        let state = self.lock();
        state.failure.clone().filter(|_| state.refused && state.ready.is_empty())
    }

    /// The bytes of the files that wait to be used or removed.
    pub fn file_bytes(&self) -> u64 {
        let state = self.lock();
        let retired: u64 = state.retired.iter().map(|s| u64::from(s.bytes)).sum();
        state.ready.len() as u64 * u64::from(self.segment_bytes) + retired
    }

    pub fn stop(&self) {
        self.lock().stop = true;
        self.work.notify_one();
        self.made.notify_one();
    }

    /// The thread's work: reuse or remove retired segments, and make missing spares.
    pub fn run(&self) {
        let mut state = self.lock();
        while !state.stop {
            let (next, did) = self.step(state);
            state = match did {
                Did::Something => next,
                Did::Fail => self.wait_to_retry(next),
                Did::Nothing => self.work.wait(next).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Does the same until there is nothing to do or a step fails.
    #[cfg(test)]
    pub fn run_dry(&self) {
        while self.step(self.lock()).1 == Did::Something {}
    }

    fn step<'a>(&'a self, mut state: MutexGuard<'a, State>) -> (MutexGuard<'a, State>, Did) {
        if let Some(segment) = state.retired.pop_front() {
            let id = (state.ready.len() < READY).then_some(state.next_id);
            drop(state);
            let recycled = id.and_then(|id| self.recycle(&segment, id));
            if recycled.is_none() {
                self.remove(&segment);
            }
            state = self.lock();
            if let Some(spare) = recycled {
                self.add(&mut state, spare);
            }
            return (state, Did::Something);
        }
        if state.ready.len() >= READY {
            return (state, Did::Nothing);
        }
        let id = state.next_id;
        drop(state);
        let made = self.disk.create(&Segment::path(&self.dir, id), self.segment_bytes);
        state = self.lock();
        match made {
            Ok(file) => {
                self.add(&mut state, Spare { id, file });
                (state, Did::Something)
            }
            Err(error) => {
                state.failure = Some(refusal(&error));
                self.made.notify_one();
                (state, Did::Fail)
            }
        }
    }

    fn wait_to_retry<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.stop || !state.retired.is_empty() {
            return state;
        }
        let waited = self.work.wait_timeout(state, RETRY);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn add(&self, state: &mut State, spare: Spare) {
        state.next_id = spare.id + 1;
        state.ready.push_back(spare);
        state.failure = None;
        state.refused = false;
        self.made.notify_one();
    }

    /// Makes a retired segment the next spare. Its frames stay in it, but their checksums are those of another
    /// segment. Not done while anybody still reads the segment.
    fn recycle(&self, segment: &Arc<Segment>, id: u64) -> Option<Spare> {
        if Arc::strong_count(segment) > 1 || segment.bytes != self.segment_bytes {
            return None;
        }
        let file = segment.file.try_clone().ok()?;
        let (from, to) = (Segment::path(&self.dir, segment.id), Segment::path(&self.dir, id));
        self.disk.rename(&from, &to).ok()?;
        Some(Spare { id, file })
    }

    fn remove(&self, segment: &Segment) {
        if let Err(error) = self.disk.remove(&Segment::path(&self.dir, segment.id)) {
            // Only its room is lost, until the store is opened again.
            tracing::warn!(segment = segment.id, %error, "cannot remove a retired segment");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full(error.to_string())
        }
        _ => StoreError::Unavailable(format!("cannot make a log segment: {error}")),
    }
}
