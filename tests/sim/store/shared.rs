//! What a process asks of a store that several use. Each request is sent once.

use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

use tenure::{
    lease::{Epoch, Key, NodeRecord, Nonce, Revision, StoreError},
    store::{
        FeedBatch, Found, FoundNode, History, Meta, NodeOutcome, Position, Raise, Range, Write,
        WriteOutcome,
    },
};
use tokio::time::{Instant, sleep};

use super::{
    Server, State,
    shape::{Kind, happens},
    state::{Data, Entry, Item, ProcessId, Sent, end_of},
    wire::{Class, Failure},
};
use crate::history::Sight;

/// Changes of one key that may wait to be logged (DynamoDB).
const MAX_TRAIL: usize = 32;
/// A read of a table is sent so often (DynamoDB).
const READS: u32 = 3;
/// A replay takes not much longer.
const REPLAY: Duration = Duration::from_secs(4);
/// Epochs are below it (R7).
const END: u16 = 1 << 10;

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

impl Server {
    /// Reads: a table is asked again when it does not answer, for that changes nothing.
    async fn ask_read<T: Send + 'static>(
        &self,
        process: ProcessId,
        work: impl Fn(&Server, &mut State) -> T + Clone + Send + 'static,
    ) -> Result<T, StoreError> {
        let tries = if self.lock().kind == Kind::DynamoDb { READS } else { 1 };
        let mut tried = 1;
        loop {
            match self.ask(process, Class::Read, work.clone()).await {
                Err(Failure::Refused(_)) if tried < tries => {
                    sleep(Duration::from_millis(100)).await;
                    tried += 1;
                }
                answer => return answer.map_err(Failure::into_error),
            }
        }
    }
}

impl State {
    /// What the server that answers a read has.
    fn reader(&mut self) -> (&Data, bool) {
        let now = Instant::now();
        let stale = match &self.stale {
            Some((_, until, share)) if now < *until => {
                let share = *share;
                happens(&mut self.chance, share)
            }
            _ => false,
        };
        match &self.stale {
            Some((data, ..)) if stale => (data, true),
            _ => (&self.data, false),
        }
    }

    /// Judges a write, and makes it durable if it may be. What is there now, or what is there instead.
    fn take_write(
        &mut self,
        server: &Server,
        process: ProcessId,
        write: &Write,
        (sent, high): (Sent, u64),
    ) -> Result<Result<Item, Option<Item>>, StoreError> {
        let there = self.data.items.get(&write.key);
        if there.map_or(Revision::ABSENT, |item| item.revision) != write.expected {
            return Ok(Err(there.cloned()));
        }
        if let Some(room) = self.room.as_mut().filter(|_| self.kind == Kind::Nats) {
            if *room == 0 {
                return Err(StoreError::Full("maximum bytes exceeded".to_owned()));
            }
            *room -= 1;
        }
        let deleted = self.data.is_deleted(self.shape.flaw, &write.key);
        let revision = match (self.kind, write.expected) {
            _ if deleted => Revision(1),
            (Kind::DynamoDb, Revision::ABSENT) => Revision(high + 1),
            (Kind::DynamoDb, Revision(before)) => Revision(before + 1),
            _ => self.data.next(),
        };
        let keep = self.shape.keep;
        let told = self.data.put(self.kind, write, revision, sent, process, keep);
        server.write_down(told);
        server.committed(self, process);
        let item = self.data.items.get(&write.key).cloned();
        Ok(item.ok_or(None))
    }
}

pub(super) async fn compare_and_set(
    server: Server,
    process: ProcessId,
    write: Write,
) -> WriteOutcome {
    let view = {
        let mut state = server.lock();
        let Some(view) = state.processes.get(&process) else {
            return WriteOutcome::Refused(unavailable("the store is closed"));
        };
        if let Some(why) = view.refuses(Instant::now()) {
            return WriteOutcome::Refused(StoreError::Unavailable(why));
        }
        if state.kind == Kind::DynamoDb
            && state.data.trail(&write.key) >= MAX_TRAIL
            && !write.changes.is_empty()
        {
            return WriteOutcome::Refused(unavailable("changes of the key wait to be logged"));
        }
        let (at_ms, high, highest) = (view.clock.wall_ms(), view.high, view.highest);
        (state.sent(&write, at_ms, server.now()), high, highest, state.kind)
    };
    let (sent, high, highest, kind) = view;
    let key = write.key.clone();
    let judged = {
        let write = write.clone();
        let work = move |server: &Server, state: &mut State| {
            state.take_write(server, process, &write, (sent, high))
        };
        server.ask(process, Class::Write, work).await
    };
    match judged {
        Ok(Ok(Ok(item))) if kind == Kind::Nats && item.revision.0 <= highest => {
            let why = "the stream went backwards: it gave a write an old sequence";
            let mut state = server.lock();
            if let Some(view) = state.processes.get_mut(&process) {
                let remember = view.witness();
                view.freeze(why, remember);
            }
            WriteOutcome::Unknown(unavailable(why))
        }
        Ok(Ok(Ok(item))) => {
            let mut state = server.lock();
            if let Some(view) = state.processes.get_mut(&process) {
                view.saw(&key, &item);
                if kind == Kind::Nats {
                    view.highest = view.highest.max(item.revision.0);
                }
            }
            WriteOutcome::Committed(item.revision)
        }
        Ok(Ok(Err(winner))) => conflict(server, process, key, (winner, write.expected), kind).await,
        Ok(Err(why)) => WriteOutcome::Refused(why),
        Err(Failure::Refused(why)) => WriteOutcome::Refused(StoreError::Unavailable(why)),
        Err(Failure::Unknown(why)) => {
            server.saw(Sight::Ambiguous);
            WriteOutcome::Unknown(StoreError::Unavailable(why))
        }
    }
}

/// A failed condition brings the winner along; a stream is asked for it.
async fn conflict(
    server: Server,
    process: ProcessId,
    key: Key,
    (winner, expected): (Option<Item>, Revision),
    kind: Kind,
) -> WriteOutcome {
    let found = match kind {
        Kind::DynamoDb => {
            server.lock().observe(process, &key, winner.as_ref(), expected);
            Ok(winner.map(|item| item.found()))
        }
        _ => {
            let asked = server.ask_read(process, move |_, state| state.data.found(&key));
            asked.await
        }
    };
    match found {
        Ok(found) => WriteOutcome::Conflict(found),
        Err(why) => WriteOutcome::Refused(why),
    }
}

impl State {
    /// A process was shown what a key holds, after it knew of this revision.
    fn observe(&mut self, process: ProcessId, key: &Key, item: Option<&Item>, known: Revision) {
        let Some(view) = self.processes.get_mut(&process) else { return };
        match item {
            Some(item) => view.saw(key, item),
            // What was written meanwhile is there.
            None if view.keys.get(key).is_none_or(|item| item.revision <= known) => {
                view.keys.remove(key);
            }
            None => {}
        }
    }
}

pub(super) async fn read(
    server: Server,
    process: ProcessId,
    key: Key,
) -> Result<Option<Found>, StoreError> {
    let known = {
        let state = server.lock();
        let view = state.processes.get(&process);
        view.and_then(|view| view.keys.get(&key)).map_or(Revision::ABSENT, |item| item.revision)
    };
    let asked = key.clone();
    let work = move |server: &Server, state: &mut State| {
        let now = state.data.revision(&asked);
        let (data, stale) = state.reader();
        let item = data.items.get(&asked).cloned();
        let revision = item.as_ref().map_or(Revision::ABSENT, |item| item.revision);
        // Less than what was seen already: such a server is found out.
        let caught = stale && revision < known;
        if stale && !caught && revision != now {
            server.saw(Sight::StaleRead);
        }
        (item, caught, stale)
    };
    let (item, caught, stale) = server.ask_read(process, work).await?;
    if caught {
        return Err(unavailable("the server does not have the latest writes"));
    }
    if !stale {
        server.lock().observe(process, &key, item.as_ref(), known);
    }
    Ok(item.map(|item| item.found()))
}

pub(super) async fn forget(
    server: Server,
    process: ProcessId,
    key: Key,
    expected: Revision,
) -> Result<bool, StoreError> {
    let refused = {
        let state = server.lock();
        state.processes.get(&process).and_then(|view| view.refuses(Instant::now()))
    };
    if let Some(why) = refused {
        return Err(StoreError::Unavailable(why));
    }
    let asked = key.clone();
    let work = move |server: &Server, state: &mut State| {
        let (kind, keep) = (state.kind, state.shape.keep);
        if kind == Kind::DynamoDb && state.data.trail(&asked) > 0 {
            return false;
        }
        let there = state.data.revision(&asked);
        if there == expected && there != Revision::ABSENT {
            state.data.forget(kind, &asked, expected, keep);
            server.deliver_soon(state);
            return true;
        }
        there == Revision::ABSENT
    };
    let gone = server.ask(process, Class::Write, work).await.map_err(Failure::into_error)?;
    if gone {
        server.lock().observe(process, &key, None, expected);
    }
    Ok(gone)
}

/// Items of a range.
pub(super) fn pick(items: &BTreeMap<Key, Item>, range: &Range) -> Vec<(Key, Found)> {
    let prefix = range.prefix.as_str();
    let from = match &range.after {
        Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
        _ => Bound::Included(prefix),
    };
    items
        .range::<str, _>((from, Bound::Unbounded))
        .take_while(|(key, _)| key.as_str().starts_with(prefix))
        .take(range.limit)
        .map(|(key, item)| (key.clone(), item.found()))
        .collect()
}

/// Keys that are known, with their records as they are now.
pub(super) async fn scan(
    server: Server,
    process: ProcessId,
    range: Range,
) -> Result<Vec<(Key, Found)>, StoreError> {
    let known: Vec<Key> = {
        let state = server.lock();
        let view = state.processes.get(&process).ok_or_else(|| unavailable("closed"))?;
        pick(&view.keys, &range).into_iter().map(|(key, _)| key).collect()
    };
    let work = move |_: &Server, state: &mut State| {
        let found = |key: &Key| state.data.found(key).map(|found| (key.clone(), found));
        known.iter().filter_map(found).collect()
    };
    server.ask_read(process, work).await
}

pub(super) async fn history(
    server: Server,
    process: ProcessId,
    after: Position,
    limit: usize,
) -> Result<History, StoreError> {
    let began = Instant::now();
    loop {
        {
            let state = server.lock();
            let view = state.processes.get(&process).ok_or_else(|| unavailable("closed"))?;
            let behind = state.kind == Kind::Nats && after.revision.0 > view.consumed;
            if behind && after.revision.0 > state.data.sequence {
                return Ok(History::Gap { resume: view.latest });
            }
            if state.kind == Kind::DynamoDb && (after < view.earliest() || after > view.latest) {
                return Ok(History::Gap { resume: view.latest });
            }
            if !behind {
                if let Some(changes) = view.after(after, limit) {
                    return Ok(History::Changes(changes));
                }
                break;
            }
            if began.elapsed() > state.shape.timeout {
                return Err(unavailable("the store's feed is behind"));
            }
        }
        // Another node may have seen it already.
        sleep(Duration::from_millis(20)).await;
    }
    let work = move |_: &Server, state: &mut State| {
        let State { processes, data, kind, .. } = state;
        let view = processes.get_mut(&process)?;
        let until = view.latest;
        let (changes, hole) = replay(*kind, data, after, until);
        if hole {
            view.kept = view.kept.max(view.floor);
            return Some(History::Gap { resume: view.floor.max(after) });
        }
        Some(History::Changes(changes.into_iter().take(limit).collect()))
    };
    // A replay that failed is begun anew, while there is time.
    loop {
        match server.ask_read(process, work).await {
            Ok(found) => return found.ok_or_else(|| unavailable("the store is closed")),
            Err(why) if began.elapsed() > REPLAY => return Err(why),
            Err(_) => sleep(Duration::from_millis(200)).await,
        }
    }
}

/// What the store still has of the changes between two positions, and whether something is missing.
fn replay(
    kind: Kind,
    data: &Data,
    after: Position,
    until: Position,
) -> (Vec<tenure::store::Committed>, bool) {
    let mut changes = Vec::new();
    let mut hole = kind == Kind::DynamoDb && after < end_of(data.first().saturating_sub(1));
    for (_, entry) in data.log.range(after.revision.0.max(1)..=until.revision.0) {
        let Entry { key, expected, removal, .. } = entry;
        if kind == Kind::Nats && key.is_some() && !removal {
            hole |= *expected > after.revision && !data.log.contains_key(&expected.0);
        }
        changes.extend(entry.changes.iter().filter(|change| change.position > after).cloned());
    }
    (changes, hole)
}

pub(super) async fn read_node(
    server: Server,
    process: ProcessId,
    incarnation: Nonce,
) -> Result<Option<FoundNode>, StoreError> {
    let work = move |_: &Server, state: &mut State| state.reader().0.node(incarnation);
    server.ask_read(process, work).await
}

pub(super) async fn write_node(
    server: Server,
    process: ProcessId,
    expected: Revision,
    record: NodeRecord,
) -> NodeOutcome {
    let work = move |server: &Server, state: &mut State| {
        let there = state.data.nodes.get(&record.incarnation);
        let of_item = state.kind == Kind::DynamoDb;
        let is_final = there.is_some_and(|node| of_item && node.record.state.is_terminal());
        if is_final || there.map_or(Revision::ABSENT, |node| node.revision) != expected {
            return None;
        }
        let (kind, keep) = (state.kind, state.shape.keep);
        let revision = state.data.put_node(kind, expected, record, process, keep);
        if kind == Kind::Nats {
            server.deliver_soon(state);
        }
        Some(revision)
    };
    match server.ask(process, Class::Write, work).await {
        Ok(Some(revision)) => NodeOutcome::Committed(revision),
        Ok(None) => NodeOutcome::Conflict,
        Err(Failure::Refused(why)) => NodeOutcome::Refused(StoreError::Unavailable(why)),
        Err(Failure::Unknown(why)) => {
            server.saw(Sight::Ambiguous);
            NodeOutcome::Unknown(StoreError::Unavailable(why))
        }
    }
}

pub(super) async fn forget_node(
    server: Server,
    process: ProcessId,
    incarnation: Nonce,
    expected: Revision,
) -> Result<(), StoreError> {
    let work = move |_: &Server, state: &mut State| match state.data.nodes.get(&incarnation) {
        Some(node) if node.revision != expected => false,
        Some(_) => state.data.nodes.remove(&incarnation).is_some(),
        None => true,
    };
    match server.ask(process, Class::Write, work).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(unavailable("the node's record changed meanwhile")),
        Err(failure) => Err(failure.into_error()),
    }
}

pub(super) async fn scan_nodes(
    server: Server,
    process: ProcessId,
) -> Result<Vec<FoundNode>, StoreError> {
    let (deaf, roundabout) = {
        let mut state = server.lock();
        let (deaf, longest) = (state.shape.deaf, state.shape.roundabout);
        let deaf = deaf > 0.0 && happens(&mut state.chance, deaf);
        let detour = (longest > Duration::ZERO).then(|| state.chance.jitter(longest));
        (deaf, detour)
    };
    if deaf {
        return Err(unavailable("nobody answers"));
    }
    if let Some(roundabout) = roundabout {
        sleep(roundabout).await;
    }
    let work = move |server: &Server, state: &mut State| {
        if state.kind == Kind::DynamoDb {
            server.recover(state, process);
        }
        let (data, _) = state.reader();
        data.nodes.keys().filter_map(|incarnation| data.node(*incarnation)).collect()
    };
    server.ask_read(process, work).await
}

pub(super) async fn refresh_meta(
    server: Server,
    process: ProcessId,
) -> Result<Arc<Meta>, StoreError> {
    let work = move |_: &Server, state: &mut State| {
        let State { processes, data, kind, .. } = state;
        let view = processes.get_mut(&process)?;
        let below = view.frozen.as_ref().map_or(view.meta.epoch, |frozen| frozen.epoch);
        if data.meta.epoch > below && data.made == data.made_for {
            view.load(*kind, data);
            view.highest = data.sequence;
            (view.frozen, view.suspect) = (None, None);
            // Nobody listening is no fault.
            let _ = view.feed.send(FeedBatch::Gap { resume: view.latest });
        }
        view.meta = Arc::clone(&data.meta);
        Some(Arc::clone(&view.meta))
    };
    let meta = server.ask_read(process, work).await?;
    meta.ok_or_else(|| unavailable("the store is closed"))
}

pub(super) async fn own_revision(
    server: Server,
    process: ProcessId,
) -> Result<Revision, StoreError> {
    server.ask_read(process, |_: &Server, state: &mut State| state.data.own_revision).await
}

pub(super) async fn register(
    server: Server,
    process: ProcessId,
    epoch: Epoch,
) -> Result<bool, StoreError> {
    let work = move |_: &Server, state: &mut State| {
        let same = state.data.meta.epoch == epoch;
        if same {
            state.data.own_revision.0 += 1;
        }
        same
    };
    server.ask(process, Class::Write, work).await.map_err(Failure::into_error)
}

pub(super) async fn raise_epoch(
    server: Server,
    process: ProcessId,
    raise: Raise,
) -> Result<(), StoreError> {
    let Raise { identity, epoch, seen, .. } = raise;
    let work = move |server: &Server, state: &mut State| {
        let frozen = state.processes.get(&process).and_then(|view| view.frozen.as_ref());
        let below = frozen.map_or(Epoch(0), |frozen| frozen.epoch).max(state.data.meta.epoch);
        if epoch <= below || epoch.0 >= END {
            return Err(unavailable("an epoch only rises"));
        }
        if state.data.own_revision != seen {
            return Err(unavailable("a node started meanwhile"));
        }
        state.data.raise(identity, epoch);
        server.check_identity_everywhere(state);
        Ok(())
    };
    server.ask(process, Class::Write, work).await.map_err(Failure::into_error)?
}
