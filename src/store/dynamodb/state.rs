//! The knowledge of a store session: the keys, up to where each is logged, and the log's end.
//!
//! The sessions that append keep the log free of duplicates and holes. An entry can only be appended after
//! the last one, so a session that appends has read all entries before. Readers only need to read.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Bound,
    sync::Arc,
};

use super::{
    layout::{LeaseItem, Line, LogEntry, Noted, Trail},
    outbox::Outbox,
    position::{before, end_of},
    ring::Ring,
};
use crate::{
    lease::{ChangeKind, Key, Nonce, Policies, Revision},
    store::{Committed, FeedBatch, Position, StoreError, Tie, quotas::Quotas},
};

/// What the session knows of a key.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyState {
    /// The revision of the key's item when it was last seen.
    pub revision: u64,
    /// The revision and the `seq` of the key's last change in the log, as far as the log was read. While the `seq`
    /// is unknown (zero), this is a lower bound: the log may have later changes.
    pub logged: (u64, u64),
    /// The item's changes that are not in the log, oldest first.
    pub unlogged: Vec<Noted>,
}

/// Everything that a session knows.
#[derive(Debug)]
pub(super) struct DynamoState {
    /// The name of this session, which is one opening of the store.
    pub me: Nonce,
    pub keys: BTreeMap<Key, KeyState>,
    /// The highest revision of any item, as far as the session knows.
    pub high: u64,
    /// The number of the last entry that was read.
    pub head: u64,
    /// The session that wrote that entry.
    pub head_by: Nonce,
    /// Sessions that may have writes which are not logged, each with the count up to which all its writes are
    /// logged.
    pub sessions: Vec<(Nonce, u64)>,
    pub outbox: Outbox,
    pub ring: Ring,
    pub latest: Position,
    pub earliest: Position,
    /// What sessions kept when the table was read, with the changes since, until a caller takes it.
    pub ties: Option<Vec<Tie>>,
    /// Keys whose items will be removed, by whichever node. The log does not say when.
    pub leaving: Vec<Key>,
    quotas: Quotas,
}

impl DynamoState {
    pub fn new(me: Nonce, keepalive_ms: u64) -> Self {
        Self {
            me,
            keys: BTreeMap::new(),
            high: 0,
            head: 0,
            head_by: Nonce::default(),
            sessions: Vec::new(),
            outbox: Outbox::new(keepalive_ms),
            ring: Ring::default(),
            latest: end_of(0),
            earliest: end_of(0),
            ties: Some(Vec::new()),
            leaving: Vec::new(),
            quotas: Quotas::default(),
        }
    }

    /// How many items of this key's kind there are: sessions, or keys. Looks at all sessions.
    pub fn count_like(&self, key: &Key) -> u64 {
        let from = Key::session_prefix();
        let sessions = self.keys.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let sessions = sessions.take_while(|(key, _)| key.is_session()).count();
        let count = if key.is_session() { sessions } else { self.keys.len() - sessions };
        count as u64
    }

    /// From now on, these policies limit the number of keys.
    pub fn bound_keys(&mut self, policies: &Arc<Policies>) {
        self.quotas.set(policies, visitor(&self.keys));
    }

    /// Takes over from an earlier state, which this newly read one replaces.
    pub fn take_over(&mut self, other: &mut Self) {
        let quotas = std::mem::take(&mut other.quotas);
        self.quotas.take_over(quotas, visitor(&self.keys));
        self.leaving.append(&mut other.leaving);
    }

    /// Admits a key that is expected to have no item and will get one. Returns whether it was counted, and so
    /// must be settled.
    pub fn admit(&mut self, key: &Key) -> Result<bool, StoreError> {
        if !self.quotas.bounds(key) || self.keys.contains_key(key) {
            return Ok(false);
        }
        self.quotas.admit(key).map(|()| true)
    }

    /// The outcome of a write that was admitted is known.
    pub fn settle(&mut self, key: &Key) {
        self.quotas.settle(key);
    }

    /// The count up to which all of a session's writes are logged; `None` for a session that has logged
    /// everything.
    pub fn logged_of(&self, session: Nonce) -> Option<u64> {
        self.sessions.iter().find(|(name, _)| *name == session).map(|(_, count)| *count)
    }

    /// Whether the log, as far as it was read, may lack some of an item's changes. A session that the log does
    /// not name has logged everything, unless it registered later: then it had read its own registration.
    pub fn is_behind(&self, trail: &Trail) -> bool {
        let behind = match self.logged_of(trail.writer) {
            Some(logged) => logged < trail.count,
            None => self.head < trail.head,
        };
        behind && !trail.changes.is_empty()
    }

    /// Whether the log itself must be searched for an item's changes, because what it says of their writer does
    /// not prove that they are in it. A session that lived on after it was taken for dead is not named, and
    /// neither is one that ended while a write was on the wire. Both may have written changes that nobody logged.
    /// `first` is the oldest entry, and `back` is the highest number of entries to search.
    pub fn is_unsure(&self, trail: &Trail, first: u64, back: u64) -> bool {
        !trail.changes.is_empty()
            && self.logged_of(trail.writer).is_none()
            && first <= trail.head + 1
            && trail.head + back >= self.head
    }

    /// Takes in which changes of known items an entry before the last one holds.
    pub fn note_logged(&mut self, entry: &LogEntry) {
        for line in &entry.lines {
            if let Line::Change(key, noted) = line
                && let Some(state) = self.keys.get_mut(key)
                && noted.order() > state.logged
            {
                state.logged = noted.order();
                state.unlogged = missing(&state.unlogged, state.logged);
            }
        }
    }

    /// Takes in an item that was found while the store was opened. At that time, only what the log's end says of
    /// the item's writer is known: `behind` says whether the log may lack changes of the item.
    pub fn found_at_start(&mut self, item: LeaseItem, behind: bool) {
        let revision = item.revision.0;
        self.high = self.high.max(revision);
        if let (Some(ties), Ok(record)) = (&mut self.ties, &item.record) {
            ties.extend(Tie::of_record(&item.key, record));
        }
        let trail = item.trail;
        if trail.changes.last().is_some_and(|noted| leaves(&item.key, noted)) {
            self.leaving.push(item.key.clone());
        }
        let (logged, unlogged) = match trail.changes.first() {
            // The log has everything before the first change. Whether it has that one by now is not known.
            Some(first) if behind => ((first.revision.0.saturating_sub(1), 0), trail.changes),
            _ => ((revision, item.seq), Vec::new()),
        };
        self.keys.insert(item.key, KeyState { revision, logged, unlogged });
    }

    /// Takes in an item that was just read, or that a failed condition returned.
    pub fn observe(&mut self, item: &LeaseItem) {
        self.high = self.high.max(item.revision.0);
        let state = known(&mut self.keys, &mut self.quotas, &item.key);
        if item.revision.0 >= state.revision {
            state.revision = item.revision.0;
            state.unlogged = missing(&item.trail.changes, state.logged);
        }
        self.outbox.settle(item, self.me);
    }

    /// Takes in that the item was gone. `known` was its revision before the read.
    pub fn observe_absent(&mut self, key: &Key, known: u64) {
        if self.keys.get(key).is_some_and(|state| state.revision == known) {
            self.keys.remove(key);
            self.quotas.removed(key);
        }
        self.outbox.settle_absent(key);
    }

    /// The changes of a key that the log lacks if its item has this revision; `None` if that is not known.
    pub fn unlogged(&self, key: &Key, revision: u64) -> Option<Vec<Noted>> {
        match self.keys.get(key) {
            Some(state) if state.revision == revision => Some(state.unlogged.clone()),
            Some(_) if revision > 0 => None,
            None if revision > 0 => None,
            _ => Some(Vec::new()),
        }
    }

    /// Takes in the entry after the last one. Returns what is new in it.
    pub fn apply(&mut self, number: u64, entry: &LogEntry) -> Vec<FeedBatch> {
        let mut batches = Vec::new();
        let mut fresh: Vec<Committed> = Vec::new();
        for (index, line) in entry.lines.iter().enumerate() {
            let position = Position { revision: Revision(number), index: index as u32 };
            match line {
                Line::Hole => {
                    push_changes(&mut batches, &mut fresh);
                    batches.push(FeedBatch::Gap { resume: position });
                }
                Line::Change(key, noted) => {
                    let state = known(&mut self.keys, &mut self.quotas, key);
                    if noted.order() <= state.logged {
                        continue;
                    }
                    if state.logged.1 != 0 && noted.change.seq > state.logged.1 + 1 {
                        // The session that appended the entry did not notice. The gap must not be passed over in
                        // silence.
                        let (seq, logged) = (noted.change.seq, state.logged.1);
                        tracing::error!(
                            key = key.as_str(),
                            seq,
                            logged,
                            "the log lacks changes of this key; listeners get a gap"
                        );
                        push_changes(&mut batches, &mut fresh);
                        batches.push(FeedBatch::Gap { resume: before(position) });
                    }
                    state.logged = noted.order();
                    state.revision = state.revision.max(noted.revision.0);
                    if !state.unlogged.is_empty() {
                        state.unlogged = missing(&state.unlogged, state.logged);
                    }
                    self.high = self.high.max(noted.revision.0);
                    if leaves(key, noted) {
                        self.leaving.push(key.clone());
                    }
                    if let Some(ties) = &mut self.ties {
                        ties.extend(Tie::of_change(key, &noted.change));
                    }
                    fresh.push(committed(position, key, noted));
                }
            }
        }
        push_changes(&mut batches, &mut fresh);
        self.high = self.high.max(entry.high);
        self.sessions.clone_from(&entry.sessions);
        let sessions = &self.sessions;
        self.outbox.over.retain(|name| sessions.iter().any(|(named, _)| named == name));
        self.head_by = entry.by;
        self.took(number, &batches);
        batches
    }

    /// Skips an entry that cannot be read. Its changes are lost to listeners.
    pub fn skip(&mut self, number: u64) -> Vec<FeedBatch> {
        let batches = vec![FeedBatch::Gap { resume: end_of(number) }];
        self.took(number, &batches);
        batches
    }

    fn took(&mut self, number: u64, batches: &[FeedBatch]) {
        self.head = number;
        for one in batches {
            match one {
                FeedBatch::Changes(changes) => {
                    if let Some(last) = changes.last() {
                        self.latest = self.latest.max(last.position);
                    }
                }
                FeedBatch::Gap { resume } => self.latest = self.latest.max(*resume),
            }
        }
        self.ring.push(number, batches);
    }

    /// The next entry to append, if one is needed.
    pub fn compose(&mut self, now_ms: u64) -> Option<LogEntry> {
        let keys = &self.keys;
        self.outbox.forget_logged(|key| keys.get(key).map_or((0, 0), |state| state.logged));
        let logged = |key: &Key| keys.get(key).map_or((0, 0), |state| state.logged);
        let (lines, taken) = self.outbox.take_lines(logged);
        let mine = self.logged_of(self.me);
        let through = self.outbox.through(taken);
        let all = taken == self.outbox.waiting();
        let over: HashSet<Nonce> = if all { self.outbox.over.clone() } else { HashSet::new() };
        let ends = self.sessions.iter().any(|(name, _)| over.contains(name));
        let absent = mine.is_none() && self.outbox.registered;
        let behind = mine.is_some_and(|mine| mine < through.min(self.outbox.committed));
        if lines.is_empty() && !ends && !absent && !behind && !self.outbox.keepalive_due(now_ms) {
            return None;
        }
        let mut sessions: Vec<(Nonce, u64)> = self.sessions.clone();
        sessions.retain(|(name, _)| !over.contains(name) && *name != self.me);
        if self.outbox.registered && !over.contains(&self.me) {
            sessions.push((self.me, through));
        }
        Some(LogEntry { by: self.me, high: self.high, sessions, lines })
    }
}

/// The state of a key that has an item.
fn known<'a>(
    keys: &'a mut BTreeMap<Key, KeyState>,
    quotas: &mut Quotas,
    key: &Key,
) -> &'a mut KeyState {
    keys.entry(key.clone()).or_insert_with_key(|key| {
        quotas.added(key);
        KeyState::default()
    })
}

/// Whether the item will be removed some time after this change, unless a caller needs it again.
fn leaves(key: &Key, noted: &Noted) -> bool {
    let kind = noted.change.kind;
    kind == ChangeKind::Forgotten || key.is_session() && kind.ends_tenure()
}

/// A function that calls its argument for each key that starts with a prefix.
fn visitor(keys: &BTreeMap<Key, KeyState>) -> impl Fn(&str, &mut dyn FnMut(&Key)) {
    |prefix, each| {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys = keys.range::<str, _>(from).map(|(key, _)| key);
        keys.take_while(|key| key.as_str().starts_with(prefix)).for_each(each);
    }
}

/// The changes that come after `logged`.
fn missing(changes: &[Noted], logged: (u64, u64)) -> Vec<Noted> {
    changes.iter().filter(|noted| noted.order() > logged).cloned().collect()
}

fn push_changes(batches: &mut Vec<FeedBatch>, fresh: &mut Vec<Committed>) {
    if !fresh.is_empty() {
        batches.push(FeedBatch::Changes(std::mem::take(fresh).into()));
    }
}

/// A change in the form that listeners get.
pub(super) fn committed(position: Position, key: &Key, noted: &Noted) -> Committed {
    Committed {
        position,
        key: key.clone(),
        node: noted.node,
        change: noted.change.clone(),
        at_ms: noted.at_ms,
    }
}
