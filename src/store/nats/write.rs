//! Compare-and-set of a lease's record, and fresh reads of it.

use std::{sync::Arc, time::Duration};

use async_nats::HeaderMap;
use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::{
    super::{Found, StoreError, Write, WriteOutcome},
    core::Core,
    link::{Asked, Last, Sent, unavailable},
    message,
    meta::removal_headers,
    nodes::sweep,
};
use crate::lease::{Key, Revision};

/// How often a write that lost checks whether the winner can be read. The leader refuses a write as soon as a
/// rival is on its way to the other servers.
const WINNER_DELAY: Duration = Duration::from_millis(20);
/// How long the mark of a removal stays, so that every node sees it.
pub(super) const MARK: Duration = Duration::from_secs(30);

/// The current state of a key.
enum Winner {
    Record(Found),
    /// The key has no record. A write must expect this revision.
    Nothing(Revision),
}

/// Sends the write. Sends it a second time only if the first was refused because of the mark of a removal.
pub(super) async fn compare_and_set(
    core: Arc<Core>,
    write: Write,
    mut encoded: Vec<u8>,
) -> WriteOutcome {
    let subject = core.link.subjects.lease(&write.key);
    let mut expected = write.expected;
    loop {
        let payload = Bytes::from(encoded.clone());
        if let Some(outcome) = send(&core, &write, &subject, expected, payload).await {
            return outcome;
        }
        let winner = timeout(core.link.timeout, winner(&core, &write.key, &subject, expected));
        match winner.await.unwrap_or_else(|_| Err(unavailable("the winner was not read in time"))) {
            Err(why) => return WriteOutcome::Refused(why),
            Ok(Winner::Record(found)) => return WriteOutcome::Conflict(Some(found)),
            // An operator removed the key by hand. The key is absent, as expected, but its subject is not empty.
            Ok(Winner::Nothing(mark))
                if write.expected == Revision::ABSENT && expected == Revision::ABSENT =>
            {
                expected = mark;
                message::expect(&mut encoded, mark);
            }
            Ok(Winner::Nothing(_)) => return WriteOutcome::Conflict(None),
        }
    }
}

/// Makes one attempt; `None` if the key has another revision.
async fn send(
    core: &Core,
    write: &Write,
    subject: &str,
    expected: Revision,
    payload: Bytes,
) -> Option<WriteOutcome> {
    if let Err(why) = core.writable() {
        return Some(WriteOutcome::Refused(why));
    }
    let highest = core.highest();
    core.metrics.lease_writes.increment(1);
    let headers = HeaderMap::new();
    match core.link.publish(subject.to_owned(), expected, headers, payload.clone()).await {
        Sent::Stored(revision) if revision.0 > highest => {
            core.committed(write, revision, &payload);
            Some(WriteOutcome::Committed(revision))
        }
        Sent::Stored(Revision(sequence)) => {
            let why = format!(
                "the stream went backwards: it gave a write the sequence {sequence} after {highest}"
            );
            core.freeze(why.clone());
            Some(WriteOutcome::Unknown(unavailable(why)))
        }
        Sent::WrongLast => None,
        Sent::Refused(why) => Some(WriteOutcome::Refused(why)),
        Sent::Unknown(why) => Some(WriteOutcome::Unknown(why)),
    }
}

/// Finds what won over a write that expected a revision.
async fn winner(
    core: &Core,
    key: &Key,
    subject: &str,
    expected: Revision,
) -> Result<Winner, StoreError> {
    loop {
        let winner = match core.link.last(subject).await? {
            Some(Last { revision, removal: false, payload }) => {
                Winner::Record(message::found(key, revision, &payload))
            }
            Some(Last { revision, .. }) => Winner::Nothing(revision),
            None => Winner::Nothing(Revision::ABSENT),
        };
        let revision = match &winner {
            Winner::Record(found) => found.revision,
            Winner::Nothing(mark) => *mark,
        };
        if revision != expected {
            return Ok(winner);
        }
        sleep(WINNER_DELAY).await;
    }
}

/// Removes a record. A mark takes its place, so that every node sees the removal, and is removed later. Returns
/// whether the key has no record any more.
pub(super) async fn forget(
    core: Arc<Core>,
    key: Key,
    expected: Revision,
) -> Result<bool, StoreError> {
    core.writable()?;
    let subject = core.link.subjects.lease(&key);
    core.metrics.lease_writes.increment(1);
    let sent = core.link.publish(subject.clone(), expected, removal_headers(), Bytes::new()).await;
    match sent {
        Sent::Stored(mark) => {
            core.saw(mark.0);
            if core.table().revision(&key) < mark {
                core.table_mut().remove(&key);
            }
            tokio::spawn(async move {
                sleep(MARK).await;
                // At worst, a mark of a few bytes stays behind.
                let _ = timeout(core.link.timeout, sweep(&core.link.stream, &subject, mark)).await;
            });
            Ok(true)
        }
        Sent::WrongLast => Ok(read(core, key).await?.is_none()),
        Sent::Refused(why) | Sent::Unknown(why) => Err(why),
    }
}

/// A key's record, from the stream's leader.
pub(super) async fn read(core: Arc<Core>, key: Key) -> Result<Option<Found>, StoreError> {
    let subject = core.link.subjects.lease(&key);
    let known = core.table().revision(&key);
    let last = core.link.last(&subject).await?;
    if last.as_ref().map_or(Revision::ABSENT, |last| last.revision) >= known {
        return Ok(judged(&key, last));
    }
    // The answer is older than what was seen already: the server no longer leads, or a message was removed by
    // hand.
    match core.link.info().await {
        Asked::Here(info) if info.state.last_sequence >= known.0 => {}
        Asked::Here(_) => return Err(unavailable("the server lacks the latest writes")),
        Asked::Gone => return Err(unavailable("the bucket is gone")),
        Asked::Unanswered(why) => return Err(unavailable(why)),
    }
    let last = core.link.last(&subject).await?;
    if last.is_none() {
        let mut table = core.table_mut();
        // What was written meanwhile is in the table.
        if table.revision(&key) == known {
            table.remove(&key);
        }
    }
    Ok(judged(&key, last))
}

fn judged(key: &Key, last: Option<Last>) -> Option<Found> {
    let last = last.filter(|last| !last.removal)?;
    Some(message::found(key, last.revision, &last.payload))
}
