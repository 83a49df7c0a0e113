//! What is durable: records, nodes, the order of changes. Everything here happens at one instant.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tenure::{
    lease::{
        Change, ChangeKind, ClusterSecret, CodecError, Epoch, FenceWhen, Key, Level, NodeRecord,
        Nonce, Record, Revision, Token,
    },
    store::{Committed, Found, FoundNode, Meta, Position, Write},
};

use super::shape::{Flaw, Kind};
use crate::history::Event;

/// One process that opened the store: its number.
pub(super) type ProcessId = u64;

/// What a key holds.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub revision: Revision,
    pub record: Result<Arc<Record>, CodecError>,
}

impl Item {
    pub fn found(&self) -> Found {
        Found { revision: self.revision, record: self.record.clone() }
    }
}

/// A node's record, and who wrote it while the node was alive.
#[derive(Clone, Debug)]
pub(super) struct NodeItem {
    pub revision: Revision,
    pub record: NodeRecord,
    pub process: ProcessId,
}

/// An entry of the store's history.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// Whose write it is, where an entry is a write; a node's record has none.
    pub key: Option<Key>,
    /// What the write found.
    pub expected: Revision,
    /// The record is gone with it.
    pub removal: bool,
    /// What was written, so that who follows has it.
    pub item: Option<Item>,
    pub changes: Vec<Committed>,
}

/// A change that is durable, and that no entry of the log has yet (DynamoDB).
#[derive(Clone, Debug)]
pub(super) struct Unlogged {
    /// The processes that will log it.
    pub by: Vec<ProcessId>,
    pub change: Committed,
}

/// All that a copy of the store would have.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub items: BTreeMap<Key, Item>,
    pub nodes: BTreeMap<Nonce, NodeItem>,
    /// The last number given to a write, where those are global; else to an entry of the log.
    pub sequence: u64,
    /// The highest number of a write that survives a crash (embedded).
    pub durable: u64,
    pub log: BTreeMap<u64, Entry>,
    /// Changes up to here are no longer kept.
    pub forgotten: Position,
    pub latest: Position,
    pub unlogged: VecDeque<Unlogged>,
    pub meta: Arc<Meta>,
    /// Changes with each node that registers, and with each raise of the epoch.
    pub own_revision: Revision,
    /// Differs between a stream or table and one that was made anew.
    pub made: u64,
    /// The one that the store's own record was made for.
    pub made_for: u64,
    /// How often each subject's writes are in the log, oldest first (NATS).
    pub subjects: BTreeMap<String, VecDeque<u64>>,
}

/// The secret that lease ids are derived from.
pub(super) const SECRET: [u8; 32] = [7; 32];

/// After every change of an entry of a log that batches.
/// When a node sent a write.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// By the node's wall clock, in milliseconds since 1970.
    pub at_ms: u64,
    /// In the run, in nanoseconds.
    pub at: u64,
}

pub(super) fn end_of(entry: u64) -> Position {
    let index = if entry == 0 { 0 } else { u32::MAX };
    Position { revision: Revision(entry), index }
}

/// The place of a write in a stream.
pub(super) fn at(sequence: u64) -> Position {
    Position { revision: Revision(sequence), index: 0 }
}

/// As it comes back from where it was written to.
fn reread(record: &Record) -> Result<Arc<Record>, CodecError> {
    let mut bytes = Vec::with_capacity(256);
    record.encode_into(&mut bytes);
    Record::decode(&bytes).map(Arc::new)
}

impl Data {
    pub fn new(identity: Nonce) -> Self {
        let secret = ClusterSecret::new(&SECRET);
        let (epoch, level) = (Epoch(0), Level::FIRST);
        let meta = Meta { identity, epoch, level, created_ms: 1_000, secret };
        Self {
            items: BTreeMap::new(),
            nodes: BTreeMap::new(),
            sequence: 0,
            durable: 0,
            log: BTreeMap::new(),
            forgotten: Position::default(),
            latest: Position::default(),
            unlogged: VecDeque::new(),
            meta: Arc::new(meta),
            own_revision: Revision::ABSENT,
            made: 1,
            made_for: 1,
            subjects: BTreeMap::new(),
        }
    }

    pub fn revision(&self, key: &Key) -> Revision {
        self.items.get(key).map_or(Revision::ABSENT, |item| item.revision)
    }

    pub fn found(&self, key: &Key) -> Option<Found> {
        self.items.get(key).map(Item::found)
    }

    /// Where the retained log begins.
    pub fn first(&self) -> u64 {
        self.log.first_key_value().map_or(self.sequence + 1, |(number, _)| *number)
    }

    /// The next number of a global sequence.
    pub fn next(&mut self) -> Revision {
        self.sequence += 1;
        Revision(self.sequence)
    }

    /// Puts a write in whose revision was judged, and says what became true by it.
    pub fn put(
        &mut self,
        kind: Kind,
        write: &Write,
        revision: Revision,
        sent: Sent,
        by: ProcessId,
        keep: usize,
    ) -> Vec<Event> {
        let Sent { at_ms, at } = sent;
        let record = reread(&write.record);
        let epoch = if kind == Kind::Embedded { self.meta.epoch } else { write.record.epoch };
        let node = if kind == Kind::Embedded { Nonce::default() } else { write.record.node };
        let item = Item { revision, record };
        let mut changes = Vec::new();
        for (change, index) in write.changes.iter().cloned().zip(0..) {
            let mut change = change;
            change.resolve(epoch, revision);
            let position = Position { revision, index };
            changes.push(Committed { position, key: write.key.clone(), node, change, at_ms });
        }
        let told = changes.iter().flat_map(|c| told(c, &write.record, at)).collect();
        self.items.insert(write.key.clone(), item.clone());
        if kind == Kind::DynamoDb {
            self.adopt(&write.key, by);
            let waiting = changes.into_iter().map(|change| Unlogged { by: vec![by], change });
            self.unlogged.extend(waiting);
        } else {
            if let Some(last) = changes.last() {
                self.latest = last.position;
            }
            let entry = Entry {
                key: Some(write.key.clone()),
                expected: write.expected,
                removal: false,
                item: Some(item),
                changes,
            };
            self.append(kind, revision.0, entry, write.key.as_str(), keep);
        }
        told
    }

    /// What an item brings along is logged by who overwrote it, too.
    pub fn adopt(&mut self, key: &Key, by: ProcessId) {
        for waiting in self.unlogged.iter_mut().filter(|w| w.change.key == *key) {
            if !waiting.by.contains(&by) {
                waiting.by.push(by);
            }
        }
    }

    /// How many changes of a key wait to be logged.
    pub fn trail(&self, key: &Key) -> usize {
        self.unlogged.iter().filter(|waiting| waiting.change.key == *key).count()
    }

    /// Puts an entry into the stream; of each subject it keeps the last few.
    pub fn append(&mut self, kind: Kind, number: u64, entry: Entry, subject: &str, keep: usize) {
        self.log.insert(number, entry);
        if kind != Kind::Nats {
            return;
        }
        let subject = self.subjects.entry(subject.to_owned()).or_default();
        subject.push_back(number);
        while subject.len() > keep.max(1)
            && let Some(old) = subject.pop_front()
        {
            self.log.remove(&old);
        }
    }

    /// Keeps so many entries.
    pub fn trim(&mut self, kind: Kind, keep: usize) {
        while kind != Kind::Nats
            && self.log.len() > keep.max(1)
            && let Some((number, _)) = self.log.pop_first()
        {
            let index = if kind == Kind::DynamoDb { u32::MAX } else { 1 };
            self.forgotten = Position { revision: Revision(number), index };
        }
    }

    /// Removes a session's record.
    pub fn forget(&mut self, kind: Kind, key: &Key, expected: Revision, keep: usize) {
        self.items.remove(key);
        if kind != Kind::DynamoDb {
            let number = self.next().0;
            let entry =
                Entry { key: Some(key.clone()), expected, removal: true, ..Entry::default() };
            self.append(kind, number, entry, key.as_str(), keep);
        }
    }

    /// The log's next entry, of what a process has to log; `None` when that is nothing.
    pub fn flush(&mut self, by: ProcessId) -> Option<u64> {
        let (mine, others): (VecDeque<_>, VecDeque<_>) =
            self.unlogged.drain(..).partition(|waiting| waiting.by.contains(&by));
        self.unlogged = others;
        if mine.is_empty() {
            return None;
        }
        self.sequence += 1;
        let number = self.sequence;
        let place = |(mut waiting, index): (Unlogged, u32)| {
            waiting.change.position = Position { revision: Revision(number), index };
            waiting.change
        };
        let changes: Vec<_> = mine.into_iter().zip(0..).map(place).collect();
        self.latest = changes.last().map_or(self.latest, |last| last.position);
        self.log.insert(number, Entry { changes, ..Entry::default() });
        Some(number)
    }

    /// Writes a node's record whose revision was judged.
    pub fn put_node(
        &mut self,
        kind: Kind,
        expected: Revision,
        record: NodeRecord,
        process: ProcessId,
        keep: usize,
    ) -> Revision {
        let incarnation = record.incarnation;
        let revision = if kind == Kind::DynamoDb { Revision(expected.0 + 1) } else { self.next() };
        // Who writes that another one is dead leaves the rest of its item.
        let before = self.nodes.get(&incarnation).map(|item| item.process);
        let process = if record.state.is_terminal() { before.unwrap_or(0) } else { process };
        self.nodes.insert(incarnation, NodeItem { revision, record, process });
        if kind == Kind::Nats {
            let entry = Entry { expected, ..Entry::default() };
            self.append(kind, revision.0, entry, &format!("node {incarnation}"), keep);
        }
        revision
    }

    pub fn node(&self, incarnation: Nonce) -> Option<FoundNode> {
        let NodeItem { revision, record, .. } = self.nodes.get(&incarnation)?.clone();
        Some(FoundNode { incarnation, revision, record: Ok(record) })
    }

    /// It is another store from now on, under a higher epoch.
    pub fn raise(&mut self, identity: Nonce, epoch: Epoch) {
        let meta = Meta::clone(&self.meta);
        self.meta = Arc::new(Meta { identity, epoch, ..meta });
        self.own_revision.0 += 1;
        self.made_for = self.made;
    }

    /// The same for a restored copy that nobody has open.
    pub fn restamp(&mut self, identity: Nonce, epoch: Epoch) {
        let before = self.meta.epoch;
        self.raise(identity, epoch);
        for item in self.items.values_mut() {
            // A token of an earlier epoch stays what it was.
            let Ok(record) = &item.record else { continue };
            let mut record = Record::clone(record);
            if let Some(tenure) = &mut record.tenure
                && tenure.token == Token::OF_THIS_WRITE
            {
                tenure.token = Token::of(before, item.revision);
                item.record = Ok(Arc::new(record));
            }
        }
    }

    /// Whether the table would delete it now, if it sinned so.
    pub fn is_deleted(&self, flaw: Flaw, key: &Key) -> bool {
        let free = |item: &Item| {
            item.record.as_ref().is_ok_and(|r| r.state == tenure::lease::KeyState::Free)
        };
        flaw == Flaw::TokensRestart && self.items.get(key).is_some_and(free)
    }
}

/// The lines of the history for a change.
fn told(committed: &Committed, record: &Record, sent: u64) -> Vec<Event> {
    let change = told_of(committed, record, sent).into_iter();
    change.chain(told_of_balance(committed)).collect()
}

/// A request of the balancer.
fn told_of_balance(committed: &Committed) -> Option<Event> {
    let Change { kind, token, reason, actor, .. } = &committed.change;
    let asks = *kind == ChangeKind::HandoverRequested && actor.as_deref() == Some("balancer");
    asks.then(|| Event::Balanced {
        key: committed.key.to_string(),
        token: token.0,
        reason: reason.as_deref().unwrap_or_default().to_owned(),
    })
}

/// The line for a change itself. Those of sessions tell their end alone, and those of pools what is ordered.
fn told_of(committed: &Committed, record: &Record, sent: u64) -> Option<Event> {
    let Change { kind, seq, owner, token, previous, session, .. } = &committed.change;
    if let Some(session) = committed.key.session() {
        return kind.ends_tenure().then(|| Event::Tombstone { session: session.to_string() });
    }
    if committed.key.is_internal() {
        let is_of_pool = committed.key == Key::of_pool("pool");
        return is_of_pool
            .then(|| Event::Orders { value: record.value.as_deref().map(str::to_owned) });
    }
    let (owner, token) = match previous {
        Some((owner, token)) if kind.ends_tenure() => (Some(owner), *token),
        Some((before, _)) => (owner.as_ref().or(Some(before)), *token),
        None => (owner.as_ref(), *token),
    };
    let blocking = record.fences().iter().filter(|fence| {
        kind.ends_tenure() && fence.token == token && fence.when == FenceWhen::BeforeGrant
    });
    Some(Event::Committed {
        key: committed.key.to_string(),
        seq: *seq,
        kind: kind.as_str().to_owned(),
        token: token.0,
        owner: owner.map(ToString::to_string).unwrap_or_default(),
        session: session.map(|session| session.to_string()),
        fences: blocking.flat_map(|fence| fence.pending.iter().map(ToString::to_string)).collect(),
        sent: Some(sent),
    })
}
