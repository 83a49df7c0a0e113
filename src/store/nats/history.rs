//! Changes after a position: from memory, or else by replaying the stream.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::StreamExt;
use tokio::time::{sleep, timeout};

use super::{
    super::{Committed, History, Position, StoreError},
    core::Core,
    follow,
    link::{Asked, unavailable},
    subject::Name,
    table::{Brought, read_changes},
};
use crate::lease::Revision;

/// The longest time that a replay may take.
const REPLAY: Duration = Duration::from_secs(5);
/// How long a replay continues after it found a gap, to learn where the last gap is.
const LOOK_ON: Duration = Duration::from_secs(1);
/// The pause before a failed replay is repeated, while there is time.
const REPLAY_AGAIN: Duration = Duration::from_millis(200);
/// How many messages may be in flight to this node.
const BATCH: usize = 1024;

/// The changes after a position.
pub(super) async fn history(
    core: Arc<Core>,
    after: Position,
    limit: usize,
) -> Result<History, StoreError> {
    if !reached(&core, after.revision).await? {
        return Ok(History::Gap { resume: core.table().latest() });
    }
    let (recent, until) = {
        let table = core.table();
        (table.after(after, limit), table.latest())
    };
    if let Some(changes) = recent {
        return Ok(History::Changes(changes));
    }
    let mut failure = None;
    let replayed = async {
        loop {
            match replay(&core, after, until, limit).await {
                Ok(replayed) => return replayed,
                Err(why) => failure = Some(why),
            }
            sleep(REPLAY_AGAIN).await;
        }
    };
    match timeout(REPLAY, replayed).await {
        Ok(Some(changes)) => Ok(History::Changes(changes)),
        // What is in memory has no gap.
        Ok(None) => Ok(History::Gap { resume: core.table().floor().max(after) }),
        Err(_) => {
            Err(failure
                .map_or_else(|| unavailable("the stream was not replayed in time"), unavailable))
        }
    }
}

/// Waits until the consumer has passed a revision that another node may have seen already. Returns `false` if the
/// stream itself has not reached it.
async fn reached(core: &Core, revision: Revision) -> Result<bool, StoreError> {
    if *core.consumed.borrow() >= revision.0 {
        return Ok(true);
    }
    match core.link.info().await {
        Asked::Here(info) if info.state.last_sequence < revision.0 => return Ok(false),
        Asked::Here(_) => {}
        Asked::Gone => return Err(unavailable("the bucket is gone")),
        Asked::Unanswered(why) => return Err(unavailable(why)),
    }
    let mut consumed = core.consumed.subscribe();
    let arrived = consumed.wait_for(|consumed| *consumed >= revision.0);
    match timeout(core.link.timeout, arrived).await {
        Ok(Ok(_)) => Ok(true),
        _ => Err(unavailable("the store's feed is behind")),
    }
}

struct Replay {
    after: Position,
    limit: usize,
    seen: HashSet<u64>,
    changes: Vec<Committed>,
    /// The first write that was expected and was not delivered.
    missed: Option<Revision>,
    /// The latest write that was expected and was not delivered, or that cannot be read.
    hole: Option<Revision>,
}

impl Replay {
    /// Takes in a message. Returns `true` once there is enough.
    fn take(&mut self, brought: &Brought) -> bool {
        self.seen.insert(brought.sequence);
        let Name::Lease(Some(key)) = &brought.name else { return false };
        if brought.removal {
            return false;
        }
        let revision = Revision(brought.sequence);
        let Some((expected, changes)) = read_changes(key, revision, &brought.payload) else {
            self.hole = Some(revision);
            return false;
        };
        if expected > self.after.revision && !self.seen.contains(&expected.0) {
            self.missed.get_or_insert(expected);
            self.hole = self.hole.max(Some(expected));
        }
        if self.hole.is_some() {
            return false;
        }
        self.changes.extend(changes.into_iter().filter(|c| c.position > self.after));
        self.changes.len() >= self.limit
    }
}

/// Reads the stream from a position on; `None` if the stream no longer has all of it.
async fn replay(
    core: &Core,
    after: Position,
    until: Position,
    limit: usize,
) -> Result<Option<Vec<Committed>>, String> {
    let link = &core.link;
    let start_sequence = after.revision.0.max(1);
    let policy = DeliverPolicy::ByStartSequence { start_sequence };
    let leases = link.subjects.all_leases();
    let consumer = follow::consumer(link, policy, leases.clone()).await?;
    let mut replay = Replay {
        after,
        limit,
        seen: HashSet::new(),
        changes: Vec::new(),
        missed: None,
        hole: None,
    };
    let mut pending = consumer.cached_info().num_pending;
    let mut reached = start_sequence - 1;
    let mut messages = follow::messages(link, &consumer, BATCH).await?;
    while pending > 0 || !follow::complete(link, &leases, reached, until.revision.0).await? {
        let brought;
        (brought, pending) = messages.next().await.ok_or("the consumer ended")??;
        reached = brought.sequence;
        if reached > until.revision.0 || replay.take(&brought) || replay.hole.is_some() {
            break;
        }
    }
    if let Some(missed) = replay.missed {
        // A consumer on a server that was killed may deliver less than the stream's leader has.
        let there = link.next(&leases, missed.0).await.map_err(|why| why.to_string())?;
        if there == Some(missed.0) {
            follow::discard(link, &consumer);
            return Err("the consumer skipped messages that the stream has".to_owned());
        }
    }
    if replay.hole.is_some() {
        let look_on = async {
            while pending > 0 && reached < until.revision.0 {
                let Some(Ok((brought, following))) = messages.next().await else { break };
                (reached, pending) = (brought.sequence, following);
                replay.take(&brought);
            }
        };
        // However far it came, it has learned more.
        let _ = timeout(LOOK_ON, look_on).await;
    }
    follow::discard(link, &consumer);
    if let Some(hole) = replay.hole {
        core.table_mut().forgot(hole);
        return Ok(None);
    }
    replay.changes.truncate(limit);
    Ok(Some(replay.changes))
}
