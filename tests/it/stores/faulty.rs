//! A store that fails as networks do, around one that does not.
//!
//! Guarantees: every fault is drawn from the seed, in the order of the calls; without faults, and with
//! delays alone, it is as good a store as the one inside; an outcome is never a lie: `Refused` was not
//! and will not be written, `Unknown` may be written later.
//!
//! Does not guarantee: fresh reads where [`Faults::stale`] is above zero; that is a promise of stores
//! which the settling of unknown outcomes must do without.
//!
//! Assumes: a tokio runtime. With [`Faulty::in_lockstep`] the store inside must finish its futures on
//! a thread of its own; then a paused clock makes a run the same for the same seed.

use std::{
    collections::HashMap,
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};

use tenure::{
    clock::Chance,
    lease::{Key, Nonce, Revision},
    store::{
        Counted, Feed, FeedBatch, Found, Gate, Health, History, LeaseStore, Meta, Position, Range,
        SharedStore, StoreError, StoreFuture, Write, WriteOutcome,
    },
};
use tokio::sync::broadcast::{self, error::RecvError};

/// Batches that a listener of a feed with gaps may fall behind.
const FEED: usize = 1024;
/// Old states of a key that a stale read may show.
const REMEMBERED: usize = 8;

/// How often what goes wrong, in thousandths of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Delays before a request arrives and before its answer does are up to this.
    pub longest: Duration,
    /// The write is dropped before it is sent, and the caller knows.
    pub dropped: u64,
    /// The write is dropped and the caller does not know.
    pub vanished: u64,
    /// The write is committed and its answer is lost.
    pub lost_reply: u64,
    /// The caller is told `Unknown`, and the write arrives afterwards.
    pub late: u64,
    /// The write arrives twice; the caller hears either answer.
    pub twice: u64,
    /// A read fails.
    pub unreadable: u64,
    /// A read shows what the key was before.
    pub stale: u64,
    /// The feed leaves out a batch, and says so.
    pub gap: u64,
}

impl Faults {
    /// Nothing but delays.
    pub fn delays(longest: Duration) -> Self {
        Self { longest, ..Self::default() }
    }

    /// Everything, often.
    pub fn everything() -> Self {
        Self {
            longest: Duration::from_millis(50),
            dropped: 60,
            vanished: 60,
            lost_reply: 100,
            late: 100,
            twice: 100,
            unreadable: 100,
            stale: 150,
            gap: 200,
        }
    }
}

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Sound,
    Dropped,
    Vanished,
    LostReply,
    Late,
    TwiceFirst,
    TwiceSecond,
}

/// The store.
pub struct Faulty<S: LeaseStore + ?Sized> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: LeaseStore + ?Sized> {
    inner: Arc<S>,
    faults: Faults,
    lockstep: bool,
    chance: Mutex<Chance>,
    /// Feeds run on their own; their draws are none of the callers' business.
    gaps: Mutex<Chance>,
    seen: Mutex<HashMap<Key, Vec<Option<Found>>>>,
    /// Writes that are on their way, also those that nobody waits for any more.
    on_their_way: AtomicUsize,
}

impl<S: LeaseStore + ?Sized> Faulty<S> {
    pub fn new(inner: Arc<S>, faults: Faults, seed: u64) -> Self {
        Self::make(inner, faults, seed, false)
    }

    /// Each call of the store inside is done when it returns: no other thread's pace decides
    /// anything.
    pub fn in_lockstep(inner: Arc<S>, faults: Faults, seed: u64) -> Self {
        Self::make(inner, faults, seed, true)
    }

    fn make(inner: Arc<S>, faults: Faults, seed: u64, lockstep: bool) -> Self {
        let shared = Shared {
            inner,
            faults,
            lockstep,
            chance: Mutex::new(Chance::of(seed, "calls")),
            gaps: Mutex::new(Chance::of(seed, "gaps")),
            seen: Mutex::default(),
            on_their_way: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Waits until every write that was ever asked for has landed or is gone.
    pub async fn quiet(&self) {
        while self.shared.on_their_way.load(SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl<S: LeaseStore + ?Sized> Shared<S> {
    fn draw(&self) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    fn happens(&self, thousandths: u64) -> bool {
        thousandths > 0 && self.draw() % 1000 < thousandths
    }

    fn delay(&self) -> Duration {
        let longest = self.faults.longest;
        if longest.is_zero() {
            return Duration::ZERO;
        }
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).jitter(longest)
    }

    fn fate(&self) -> Fate {
        let Faults { dropped, vanished, lost_reply, late, twice, .. } = self.faults;
        let kinds = [
            (dropped, Fate::Dropped),
            (vanished, Fate::Vanished),
            (lost_reply, Fate::LostReply),
            (late, Fate::Late),
            (twice / 2, Fate::TwiceFirst),
            (twice / 2, Fate::TwiceSecond),
        ];
        if kinds.iter().all(|(often, _)| *often == 0) {
            return Fate::Sound;
        }
        let mut drawn = self.draw() % 1000;
        for (often, fate) in kinds {
            if drawn < often {
                return fate;
            }
            drawn -= often;
        }
        Fate::Sound
    }

    async fn arrive(&self, write: Write) -> WriteOutcome {
        let key = write.key.clone();
        let outcome = self.inner.compare_and_set(write);
        let outcome = if self.lockstep { block_on(outcome) } else { outcome.await };
        if self.faults.stale > 0 {
            let now = self.inner.read(&key);
            let now = if self.lockstep { block_on(now) } else { now.await };
            if let Ok(now) = now {
                self.remember(&key, now);
            }
        }
        outcome
    }

    fn remember(&self, key: &Key, state: Option<Found>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let states = seen.entry(key.clone()).or_insert_with(|| vec![None]);
        states.push(state);
        let old = states.len().saturating_sub(REMEMBERED);
        states.drain(..old);
    }

    fn some_old_state(&self, key: &Key) -> Option<Option<Found>> {
        let drawn = self.draw() as usize;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let states = seen.get(key)?;
        Some(states[drawn % states.len()].clone())
    }
}

/// Counts a write that is on its way, also when its future is dropped.
struct OnItsWay<S: LeaseStore + ?Sized>(Arc<Shared<S>>);

impl<S: LeaseStore + ?Sized> OnItsWay<S> {
    fn new(shared: &Arc<Shared<S>>) -> Self {
        shared.on_their_way.fetch_add(1, SeqCst);
        Self(shared.clone())
    }
}

impl<S: LeaseStore + ?Sized> Drop for OnItsWay<S> {
    fn drop(&mut self) {
        self.0.on_their_way.fetch_sub(1, SeqCst);
    }
}

async fn pause(span: Duration) {
    if !span.is_zero() {
        tokio::time::sleep(span).await;
    }
}

/// Whether a record is the one that a write of this nonce makes.
fn shows(there: Option<&Found>, nonce: Nonce) -> bool {
    there.and_then(|found| found.record.as_ref().ok()).is_some_and(|record| record.nonce == nonce)
}

fn broken(what: &str) -> StoreError {
    StoreError::Unavailable(format!("injected: {what}"))
}

impl<S: LeaseStore + ?Sized> LeaseStore for Faulty<S> {
    fn meta(&self) -> Arc<Meta> {
        self.shared.inner.meta()
    }

    fn read(&self, key: &Key) -> StoreFuture<Result<Option<Found>, StoreError>> {
        let (shared, key) = (self.shared.clone(), key.clone());
        let (before, after) = (shared.delay(), shared.delay());
        let (unreadable, stale) =
            (shared.happens(shared.faults.unreadable), shared.happens(shared.faults.stale));
        Box::pin(async move {
            pause(before).await;
            if unreadable {
                return Err(broken("the answer was lost"));
            }
            let old = if stale { shared.some_old_state(&key) } else { None };
            let found = match old {
                Some(old) => Ok(old),
                None if shared.lockstep => block_on(shared.inner.read(&key)),
                None => shared.inner.read(&key).await,
            };
            pause(after).await;
            found
        })
    }

    fn forget(&self, key: &Key, expected: Revision) -> StoreFuture<Result<bool, StoreError>> {
        self.shared.inner.forget(key, expected)
    }

    fn compare_and_set(&self, write: Write) -> StoreFuture<WriteOutcome> {
        let shared = self.shared.clone();
        let (before, after, later) = (shared.delay(), shared.delay(), shared.delay());
        let fate = shared.fate();
        let way = OnItsWay::new(&shared);
        if fate == Fate::Sound && shared.faults.longest.is_zero() && !shared.lockstep {
            // As the store inside: on its way when this returns.
            let outcome = shared.inner.compare_and_set(write);
            return Box::pin(async move {
                let _way = way;
                outcome.await
            });
        }
        // A task, so that a caller who gives up changes nothing.
        let (told, hears) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let _way = way;
            pause(before).await;
            let outcome = match fate {
                Fate::Sound => shared.arrive(write).await,
                Fate::Dropped => WriteOutcome::Refused(broken("it was not sent")),
                Fate::Vanished => WriteOutcome::Unknown(broken("it was lost")),
                Fate::LostReply => {
                    shared.arrive(write).await;
                    WriteOutcome::Unknown(broken("the answer was lost"))
                }
                Fate::Late => {
                    let _ = told.send(WriteOutcome::Unknown(broken("it takes long")));
                    // Several times as long as any answer takes.
                    pause(later * 5).await;
                    shared.arrive(write).await;
                    return;
                }
                Fate::TwiceFirst | Fate::TwiceSecond => {
                    let first = shared.arrive(write.clone()).await;
                    if fate == Fate::TwiceFirst {
                        let _ = told.send(first);
                        pause(later).await;
                        shared.arrive(write).await;
                        return;
                    }
                    pause(later).await;
                    let nonce = write.record.nonce;
                    match shared.arrive(write).await {
                        // The first copy was committed, and somebody wrote on top of it since: a
                        // store that cannot tell must not say that it was not written.
                        WriteOutcome::Conflict(there) if !shows(there.as_ref(), nonce) => {
                            WriteOutcome::Unknown(broken("another copy was answered"))
                        }
                        second => second,
                    }
                }
            };
            pause(after).await;
            let _ = told.send(outcome);
        });
        Box::pin(async move {
            hears.await.unwrap_or_else(|_| WriteOutcome::Unknown(broken("the runtime ended")))
        })
    }

    fn census(&self, most: usize) -> Option<Counted> {
        self.shared.inner.census(most)
    }

    fn scan(&self, range: Range) -> StoreFuture<Result<Vec<(Key, Found)>, StoreError>> {
        let (shared, before) = (self.shared.clone(), self.shared.delay());
        Box::pin(async move {
            pause(before).await;
            shared.inner.scan(range).await
        })
    }

    fn feed(&self) -> Feed {
        let mut inner = self.shared.inner.feed();
        if self.shared.faults.gap == 0 {
            return inner;
        }
        let (news, feed) = broadcast::channel(FEED);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            while news.receiver_count() > 0 {
                let heard = match inner.recv().await {
                    Ok(FeedBatch::Changes(changes)) => {
                        let drawn = shared.gaps.lock().unwrap_or_else(PoisonError::into_inner);
                        let lost = { drawn }.next_u64() % 1000 < shared.faults.gap;
                        let last = changes.last().map(|change| change.position);
                        match last {
                            Some(resume) if lost => FeedBatch::Gap { resume },
                            _ => FeedBatch::Changes(changes),
                        }
                    }
                    Ok(gap @ FeedBatch::Gap { .. }) => gap,
                    Err(RecvError::Lagged(_)) => FeedBatch::Gap { resume: shared.inner.latest() },
                    Err(RecvError::Closed) => return,
                };
                let _ = news.send(heard);
            }
        });
        feed
    }

    fn history(&self, after: Position, limit: usize) -> StoreFuture<Result<History, StoreError>> {
        let (shared, before) = (self.shared.clone(), self.shared.delay());
        Box::pin(async move {
            pause(before).await;
            shared.inner.history(after, limit).await
        })
    }

    fn latest(&self) -> Position {
        self.shared.inner.latest()
    }

    fn earliest(&self) -> Position {
        self.shared.inner.earliest()
    }

    fn health(&self) -> Health {
        self.shared.inner.health()
    }

    fn gate(&self, key: &Key, found: &Found) -> Option<Gate> {
        self.shared.inner.gate(key, found)
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        self.shared.inner.shared()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread, with the runtime standing still meanwhile.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}
