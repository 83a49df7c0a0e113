//! Compare-and-set of a lease's record, and its fresh read.

use std::{sync::Arc, time::Duration};

use async_nats::HeaderMap;
use bytes::Bytes;
use tokio::time::{sleep, timeout};

use super::{
    super::{Found, Outcome, StoreError, Write},
    core::Core,
    link::{Asked, Last, Sent, unavailable},
    message,
    meta::removal_headers,
    nodes::sweep,
};
use crate::lease::{Key, Revision};

/// How often a write that another one beat looks whether that one can be read: the leader refuses as
/// soon as a rival is on its way to the other servers.
const WINNER_DELAY: Duration = Duration::from_millis(20);
/// How long the mark of a removal stays, for every node to see it.
pub(super) const MARK: Duration = Duration::from_secs(30);

/// What there is of a key.
enum Winner {
    /// A record.
    Record(Found),
    /// Nothing, and a write has to expect this revision.
    Nothing(Revision),
}

/// Sends the write; a second time only after the first was refused because of the mark of a removal.
pub(super) async fn compare_and_set(
    core: Arc<Core>,
    write: Write,
    mut encoded: Vec<u8>,
) -> Outcome {
    let subject = core.link.subjects.lease(&write.key);
    let mut expected = write.expected;
    loop {
        let payload = Bytes::from(encoded.clone());
        if let Some(outcome) = send(&core, &write.key, &subject, expected, payload).await {
            return outcome;
        }
        let winner = timeout(core.link.timeout, winner(&core, &write.key, &subject, expected));
        match winner.await.unwrap_or_else(|_| Err(unavailable("the winner was not read in time"))) {
            Err(why) => return Outcome::Refused(why),
            Ok(Winner::Record(found)) => return Outcome::Conflict(Some(found)),
            // An operator removed the key by hand: absent, as expected, but its subject is not empty.
            Ok(Winner::Nothing(mark))
                if write.expected == Revision::ABSENT && expected == Revision::ABSENT =>
            {
                expected = mark;
                message::expect(&mut encoded, mark);
            }
            Ok(Winner::Nothing(_)) => return Outcome::Conflict(None),
        }
    }
}

/// One attempt; `None` when the key has another revision.
async fn send(
    core: &Core,
    key: &Key,
    subject: &str,
    expected: Revision,
    payload: Bytes,
) -> Option<Outcome> {
    if let Err(why) = core.writable() {
        return Some(Outcome::Refused(why));
    }
    let highest = core.highest();
    core.metrics.lease_writes.increment(1);
    let headers = HeaderMap::new();
    match core.link.publish(subject.to_owned(), expected, headers, payload.clone()).await {
        Sent::Stored(revision) if revision.0 > highest => {
            core.committed(key, revision, &payload);
            Some(Outcome::Committed(revision))
        }
        Sent::Stored(Revision(sequence)) => {
            let why = format!(
                "the stream went backwards: it gave a write the sequence {sequence} after {highest}"
            );
            core.freeze(why.clone());
            Some(Outcome::Unknown(unavailable(why)))
        }
        Sent::WrongLast => None,
        Sent::Refused(why) => Some(Outcome::Refused(why)),
        Sent::Unknown(why) => Some(Outcome::Unknown(why)),
    }
}

/// What beat a write that expected a revision.
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

/// Removes a session's record: a mark takes its place, so that every node hears of it, and is removed
/// later. Whether there is no record any more.
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
                // What stays behind is a mark of some bytes.
                let _ = timeout(core.link.timeout, sweep(&core.link.stream, &subject, mark)).await;
            });
            Ok(true)
        }
        Sent::WrongLast => Ok(read(core, key).await?.is_none()),
        Sent::Refused(why) | Sent::Unknown(why) => Err(why),
    }
}

/// A key's record as the stream's leader has it.
pub(super) async fn read(core: Arc<Core>, key: Key) -> Result<Option<Found>, StoreError> {
    let subject = core.link.subjects.lease(&key);
    let known = core.table().revision(&key);
    let last = core.link.last(&subject).await?;
    if last.as_ref().map_or(Revision::ABSENT, |last| last.revision) >= known {
        return Ok(judged(&key, last));
    }
    // Less than what was seen already: a server that leads no more, or a message removed by hand.
    match core.link.info().await {
        Asked::Here(info) if info.state.last_sequence >= known.0 => {}
        Asked::Here(_) => return Err(unavailable("the server does not have the latest writes")),
        Asked::Gone => return Err(unavailable("the bucket is gone")),
        Asked::Unanswered(why) => return Err(unavailable(why)),
    }
    let last = core.link.last(&subject).await?;
    if last.is_none() {
        let mut table = core.table_mut();
        // What was written meanwhile is there.
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
