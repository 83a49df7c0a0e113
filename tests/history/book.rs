//! A history in order of time, with what the checks look up.

use std::collections::{BTreeMap, HashMap};

use super::{Complaints, Event, Line, Op};

/// Where a store's lines stand in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commits {
    /// Where they became durable.
    OnTime,
    /// In their order, where somebody read them.
    Read,
    /// Where somebody read them, in any order.
    Late,
}

/// All lines, by time. Everything else names them by their place, from 0.
pub(super) struct Book<'a> {
    pub lines: Vec<&'a Line>,
    /// What was said of each key.
    pub keys: Vec<(&'a str, Vec<usize>)>,
    pub asked: HashMap<u64, usize>,
    /// The first answer to each call.
    pub answered: HashMap<u64, usize>,
    pub tombstones: HashMap<&'a str, usize>,
    pub session_ends: Vec<usize>,
    pub resets: HashMap<&'a str, Vec<usize>>,
    /// Faults, and their end.
    pub faults: Vec<usize>,
    /// When the store went backwards.
    pub regresses: Vec<usize>,
    pub calm: Option<usize>,
    pub commits: Commits,
    /// Up to where the history is known to be whole.
    pub wholes: Vec<usize>,
    /// Up to where it was judged before.
    pub judged: usize,
    /// Whether the history has what the store committed.
    pub has_store: bool,
    asked_twice: Vec<(usize, usize)>,
}

/// The key that a line is about.
pub(super) fn key_of(event: &Event) -> Option<&str> {
    match event {
        Event::Asked { key, .. }
        | Event::Told { key, .. }
        | Event::Acknowledged { key, .. }
        | Event::Shut { key, .. }
        | Event::Cut { key, .. }
        | Event::Committed { key, .. }
        | Event::All { key, .. }
        | Event::Heard { key, .. }
        | Event::Fenced { key, .. }
        | Event::Tried { key, .. }
        | Event::Blocks { key }
        | Event::Stood { key, .. }
        | Event::Ran { key, .. }
        | Event::Promised { key, .. }
        | Event::Wrote { key, .. } => Some(key),
        _ => None,
    }
}

/// The call that a line answers.
fn answers(event: &Event) -> Option<u64> {
    match event {
        Event::Told { call, .. } => *call,
        Event::Refused { call, .. }
        | Event::Lost { call }
        | Event::Acknowledged { call, .. }
        | Event::SessionEndAcknowledged { call, .. } => Some(*call),
        _ => None,
    }
}

impl<'a> Book<'a> {
    pub fn new(lines: &'a [Line]) -> Self {
        let mut lines: Vec<&Line> = lines.iter().collect();
        lines.sort_by_key(|line| line.t);
        let mut book = Self {
            keys: Vec::new(),
            asked: HashMap::new(),
            answered: HashMap::new(),
            tombstones: HashMap::new(),
            session_ends: Vec::new(),
            resets: HashMap::new(),
            faults: Vec::new(),
            regresses: Vec::new(),
            calm: None,
            commits: Commits::OnTime,
            wholes: Vec::new(),
            judged: 0,
            has_store: false,
            asked_twice: Vec::new(),
            lines: Vec::new(),
        };
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            if let Some(key) = key_of(&line.event) {
                let number = *numbers.entry(key).or_insert(book.keys.len());
                if number == book.keys.len() {
                    book.keys.push((key, Vec::new()));
                }
                book.keys[number].1.push(at);
            }
            book.note(at, &line.event);
        }
        book.keys.sort_unstable_by_key(|(key, _)| *key);
        book.lines = lines;
        book
    }

    fn note(&mut self, at: usize, event: &'a Event) {
        if let Some(call) = answers(event) {
            self.answered.entry(call).or_insert(at);
        }
        match event {
            Event::Asked { call, .. } => {
                if let Some(before) = self.asked.insert(*call, at) {
                    self.asked_twice.push((before, at));
                }
            }
            Event::Fault { fault, .. } => {
                self.faults.push(at);
                if fault.starts_with("regress") || fault.starts_with("restore") {
                    self.regresses.push(at);
                }
            }
            Event::Calm => {
                self.faults.push(at);
                self.calm = Some(at);
            }
            Event::Over => self.faults.push(at),
            Event::LateCommits => self.commits = Commits::Late,
            Event::Whole | Event::Judged => {
                self.has_store = true;
                if self.commits == Commits::OnTime {
                    self.commits = Commits::Read;
                }
                match event {
                    Event::Judged => self.judged = at,
                    _ => self.wholes.push(at),
                }
            }
            Event::Committed { .. } => self.has_store = true,
            Event::Tombstone { session } => {
                self.has_store = true;
                self.tombstones.entry(session).or_insert(at);
            }
            Event::SessionEndAcknowledged { .. } => self.session_ends.push(at),
            Event::Reset { subscriber } => self.resets.entry(subscriber).or_default().push(at),
            _ => {}
        }
    }

    pub fn complain(&self, found: &mut Complaints<'a>) {
        for (before, at) in &self.asked_twice {
            let headline = "two calls have one number".to_owned();
            found.say("log", key_of(&self.lines[*at].event), &[*before, *at], headline);
        }
    }

    pub fn t(&self, at: usize) -> u64 {
        self.lines[at].t
    }

    pub fn event(&self, at: usize) -> &'a Event {
        &self.lines[at].event
    }

    /// Whether the history goes on for long enough to say what became of this line.
    pub fn is_judged(&self, at: usize) -> bool {
        self.commits != Commits::Read || self.due(at).is_some()
    }

    /// The end of the run.
    pub fn over(&self) -> u64 {
        self.lines.last().map_or(0, |line| line.t)
    }

    /// Whether the store's lines stand where they became durable.
    pub fn on_time(&self) -> bool {
        self.commits == Commits::OnTime
    }

    /// Whether the store's lines stand in its own order, and none is missing.
    pub fn in_order(&self) -> bool {
        self.commits != Commits::Late
    }

    /// Before which line a change must stand that somebody was told of here; `None`: that cannot be said.
    pub fn due(&self, at: usize) -> Option<usize> {
        if self.on_time() {
            return Some(at);
        }
        self.wholes.get(self.wholes.partition_point(|whole| *whole < at)).copied()
    }

    /// Whether the store went backwards after this line.
    pub fn forgotten_after(&self, at: usize) -> bool {
        self.regresses.last().is_some_and(|regress| *regress > at)
    }

    /// Whether the store went backwards between two lines.
    pub fn forgotten_between(&self, from: usize, to: usize) -> bool {
        let after = self.regresses.partition_point(|regress| *regress < from);
        self.regresses.get(after).is_some_and(|regress| *regress < to)
    }

    /// What the call that a line answers had asked for, and where.
    pub fn question(&self, call: Option<u64>) -> Option<(usize, Op)> {
        let at = *self.asked.get(&call?)?;
        match self.event(at) {
            Event::Asked { op, .. } => Some((at, *op)),
            _ => None,
        }
    }
}
