//! Records, writes and waiting, as all parts of the suite use them.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use tenure::{
    lease::{Change, ChangeKind, Ended, Epoch, Key, KeyState, Nonce, Record, Revision, StoreError},
    store::{
        Committed, Feed, FeedBatch, Found, History, LeaseStore, Position, Raise, Range,
        SharedStore, StoreFuture, Write, WriteOutcome,
    },
};
use tokio::sync::broadcast::error::RecvError;

use crate::support::records;
pub use crate::support::{
    clock::{PATIENCE, eventually},
    records::{key, nonce},
    seed::{from_environment, seed},
};

/// Raises the epoch, whichever nodes there are; `restoring`: for a restore.
pub async fn raise(
    shared: &(impl SharedStore + ?Sized),
    identity: Nonce,
    epoch: Epoch,
    restoring: bool,
) -> Result<(), StoreError> {
    let seen = shared.own_revision().await?;
    shared.raise_epoch(Raise { identity, epoch, seen, restoring, secret: None }).await
}

/// Every future of a store resolves within this.
pub const SOON: Duration = Duration::from_secs(10);

/// Waits for a store's answer, which every store owes within [`SOON`].
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(done) => done,
        Err(_) => panic!("the store did not answer within {SOON:?}"),
    }
}

/// The record of a fresh grant.
pub fn held(seq: u64) -> Record {
    records::held("w1", seq)
}

/// The record after a release of the tenure that a record holds.
pub fn released(before: &Found) -> Record {
    let record = before.record.as_ref().expect("a sound record");
    let mut tenure = record.tenure.clone().expect("a tenure");
    tenure.token = record.token(before.revision);
    let previous = Ended { tenure, reason: ChangeKind::Released, ended_at_ms: 0, fenced: false };
    Record {
        nonce: nonce(),
        state: KeyState::Free,
        seq: record.seq + 1,
        tenure: None,
        previous: Some(Box::new(previous)),
        ..Record::clone(record)
    }
}

pub fn change(kind: ChangeKind, seq: u64) -> Change {
    records::change(kind, "w1", seq)
}

/// A grant as a write.
pub fn grant(key: &Key, expected: Revision, seq: u64) -> Write {
    records::grant(key, expected, "w1", seq)
}

/// The revision of a write that must be committed.
pub async fn committed(outcome: StoreFuture<WriteOutcome>) -> Revision {
    match soon(outcome).await {
        WriteOutcome::Committed(revision) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

pub async fn commit(store: &Arc<dyn LeaseStore>, write: Write) -> Revision {
    committed(store.compare_and_set(write)).await
}

/// What a key holds.
pub async fn found(store: &Arc<dyn LeaseStore>, key: &Key) -> Option<Found> {
    soon(store.read(key)).await.expect("the store reads")
}

/// The record that a key holds and its revision.
pub async fn sound(store: &Arc<dyn LeaseStore>, key: &Key) -> (Revision, Arc<Record>) {
    let found = found(store, key).await.unwrap_or_else(|| panic!("{key:?} has no record"));
    (found.revision, found.record.unwrap_or_else(|why| panic!("{key:?}: {why}")))
}

/// Every key of a range, page by page.
pub async fn pages(store: &Arc<dyn LeaseStore>, prefix: &str, limit: usize) -> Vec<(Key, Found)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = Range { prefix: prefix.to_owned(), after: after.clone(), limit };
        let page = soon(store.scan(page)).await.expect("the store scans");
        assert!(page.len() <= limit, "{} of at most {limit}", page.len());
        let full = page.len() == limit;
        all.extend(page);
        if !full {
            return all;
        }
        after = all.last().map(|(key, _): &(Key, Found)| key.as_str().to_owned());
    }
}

/// The history after a position, to the last change; asserts that nothing of it was forgotten.
pub async fn history(
    store: &Arc<dyn LeaseStore>,
    mut after: Position,
    page: usize,
) -> Vec<Committed> {
    let mut all: Vec<Committed> = Vec::new();
    loop {
        match soon(store.history(after, page)).await.expect("the store has a history") {
            History::Changes(changes) if changes.is_empty() => return all,
            History::Changes(changes) => {
                assert!(changes.len() <= page, "{} of at most {page}", changes.len());
                all.extend(changes);
            }
            History::Gap { resume } => panic!("a gap after {after:?}, to {resume:?}"),
        }
        let last = all.last().expect("some").position;
        assert!(last > after, "the history goes on: {last:?} after {after:?}");
        after = last;
    }
}

/// A change in words that are the same wherever it is read.
pub fn told(committed: &Committed) -> String {
    format!("{committed:?}")
}

/// A listener of the feed that reads the history where the feed has a gap.
#[derive(Debug)]
pub struct Listener {
    feed: Feed,
    /// Of the last change heard.
    pub at: Position,
    pub heard: Vec<Committed>,
    pub gaps: usize,
}

impl Listener {
    /// Hears what is committed from now on.
    pub fn new(store: &Arc<dyn LeaseStore>) -> Self {
        let feed = store.feed();
        Self { feed, at: store.latest(), heard: Vec::new(), gaps: 0 }
    }

    /// Takes the next news.
    pub async fn listen(&mut self, store: &Arc<dyn LeaseStore>) {
        match self.feed.recv().await {
            Ok(FeedBatch::Changes(changes)) => {
                for change in changes.iter() {
                    // The feed was opened before the position was read: some are known already.
                    if change.position > self.at {
                        self.at = change.position;
                        self.heard.push(change.clone());
                    }
                }
            }
            Ok(FeedBatch::Gap { resume }) => {
                self.gaps += 1;
                self.catch_up(store).await;
                assert!(self.at >= resume, "the history reaches to {resume:?}, not {:?}", self.at);
            }
            Err(RecvError::Lagged(_)) => self.catch_up(store).await,
            Err(RecvError::Closed) => panic!("the feed ended"),
        }
    }

    async fn catch_up(&mut self, store: &Arc<dyn LeaseStore>) {
        for change in history(store, self.at, 100).await {
            self.at = change.position;
            self.heard.push(change);
        }
    }

    /// Listens until so many changes were heard.
    pub async fn until(&mut self, store: &Arc<dyn LeaseStore>, changes: usize) {
        let listening = async {
            while self.heard.len() < changes {
                self.listen(store).await;
            }
        };
        if tokio::time::timeout(PATIENCE, listening).await.is_err() {
            panic!("heard {} of {changes} changes", self.heard.len());
        }
    }
}

/// Per key `seq` counts 1, 2, 3…, and positions rise.
pub fn assert_whole(changes: &[Committed]) {
    let mut seqs: HashMap<&Key, u64> = HashMap::new();
    for pair in changes.windows(2) {
        assert!(pair[0].position < pair[1].position, "{pair:?}");
    }
    for change in changes {
        let before = seqs.insert(&change.key, change.change.seq).unwrap_or(0);
        assert_eq!(change.change.seq, before + 1, "a hole, or a change told twice: {change:?}");
    }
}
