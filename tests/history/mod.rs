//! The history checker: reads what workers, nodes, stores, subscribers and plugins did and were told, in a
//! simulation or among real processes, and says where I1 to I8 and R10 (docs/protocol.md) do not hold, each time with a
//! timeline that a person can read. It costs O(n log n), and knows nothing of the program that it judges.
//!
//! Other test binaries include it: `#[path = "../history/mod.rs"] mod history;`. A history is a list of
//! [`Line`]s; [`Log`] collects one.
//!
//! ```ignore
//! let report = history::check(&log.lines());
//! assert!(report.violations.is_empty(), "{report}");
//! report.demand(&Needs { take_overs: 10, ..Needs::default() }).expect("a run that shows something");
//! ```
//!
//! What counts how:
//! - Lines are put in the order of `t`; of lines with one `t`, the one that was written first is earlier.
//! - A worker goes by the name under which it asks for keys: it is the owner of what it is granted.
//! - Windows of one worker under one token are one tenure, and may overlap each other: heartbeats, and a request
//!   that was repeated. An answer that comes after its own guarantee had ended is believed by nobody.
//! - A token that was cut ([`Event::Cut`]) is believed by nobody from then on, whatever is told later.
//! - Where the history has what the store committed, a tenure's window must be over when its end is committed,
//!   also where nobody took the key (I1); a reclaimed one and a cut one are excepted.
//! - So also a session's tombstone and the windows of its leases (I6): whoever ends a session shuts them first.
//! - A fault whose name begins with `regress` or `restore` is a store that went backwards: what it forgot is not
//!   held against it, and numbers begin anywhere.
//! - [`Event::LateCommits`]: the store's lines stand where somebody read them. Their order alone counts.
//! - [`Event::Whole`]: so they do, and what was told or acknowledged before such a line has its change above it.
//! - A long run is judged in parts: [`carry`] says what of a part the next one needs.

#![allow(dead_code, unused_imports, reason = "each test binary that includes it uses its own part")]

mod book;
mod calm;
mod carry;
mod change;
mod counts;
mod durable;
mod event;
mod feeds;
mod fences;
mod fortunes;
mod log;
mod notes;
mod permits;
mod programs;
mod promises;
mod restarts;
mod sessions;
mod story;
mod timeline;
mod tokens;
mod untold;
mod windows;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

pub use carry::carry;
pub use change::committed;
pub use counts::{Counts, Needs};
pub use event::{Event, Line, Op, Sight};
pub use fortunes::{Fortunes, fortunes};
pub use log::{Log, gather, read};
pub use notes::Notes;
pub use untold::IN_DOUBT;

use book::Book;
use story::Story;

/// What is checked, by the names that violations have. `counter`: the protected counter takes no write under a
/// lower token than it took before. `told`: no lease lasts that its owner was not told of. `permits`: a key is granted
/// only as the number of permits that is in force names it. `log`: the history itself makes sense.
pub const INVARIANTS: [&str; 13] =
    ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "R10", "counter", "told", "permits", "log"];

/// Violations that are told in full: of one invariant on one key, and in all.
const TOLD_PER_KEY: usize = 3;
const TOLD_IN_ALL: usize = 100;

/// What is not the same for all runs.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// I8: how long after [`Event::Calm`] what was asked before may wait, in nanoseconds; and for how long a key
    /// may be refused to all while nobody has it.
    pub after_calm: u64,
    /// I8: how long after it calls may be answered late, or lost.
    pub calls_after_calm: u64,
}

impl Limits {
    /// One for all.
    pub fn of(after_calm: u64) -> Self {
        Self { after_calm, calls_after_calm: after_calm }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(60_000_000_000)
    }
}

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    /// One of [`INVARIANTS`].
    pub invariant: &'static str,
    /// A timeline for people.
    pub text: String,
    /// The lines that show it, as numbered in the timeline: from 1, in the order of time.
    pub lines: Vec<usize>,
}

/// What was found in a history.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub violations: Vec<Violation>,
    /// Violations beyond those that are told.
    pub untold: usize,
    pub counts: Counts,
}

impl Report {
    /// A run shows something only if enough happened in it. `Err`: what there was too little of.
    pub fn demand(&self, needs: &Needs) -> Result<(), String> {
        self.counts.cover(needs)
    }

    /// The invariants that do not hold.
    pub fn broken(&self) -> BTreeSet<&'static str> {
        self.violations.iter().map(|violation| violation.invariant).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.counts)?;
        for violation in &self.violations {
            writeln!(f, "\n{}", violation.text.trim_end())?;
        }
        match self.untold {
            0 => Ok(()),
            more => writeln!(f, "\nand {more} more"),
        }
    }
}

/// What a check found: the lines that show it, and what is to be marked in the timeline.
struct Complaint<'a> {
    invariant: &'static str,
    key: Option<&'a str>,
    lines: Vec<usize>,
    headline: String,
    /// What happened from when to when.
    mark: Option<(u64, u64, String)>,
}

/// What all checks found.
#[derive(Default)]
struct Complaints<'a> {
    told: Vec<Complaint<'a>>,
    untold: usize,
    per_key: BTreeMap<(&'static str, Option<&'a str>), usize>,
}

impl<'a> Complaints<'a> {
    fn push(&mut self, complaint: Complaint<'a>) {
        let so_far = self.per_key.entry((complaint.invariant, complaint.key)).or_default();
        *so_far += 1;
        if *so_far > TOLD_PER_KEY || self.told.len() >= TOLD_IN_ALL {
            self.untold += 1;
        } else {
            self.told.push(complaint);
        }
    }

    /// A complaint without a mark.
    fn say(
        &mut self,
        invariant: &'static str,
        key: Option<&'a str>,
        lines: &[usize],
        headline: String,
    ) {
        self.push(Complaint { invariant, key, lines: lines.to_vec(), headline, mark: None });
    }

    fn has(&self, invariant: &'static str, key: &'a str) -> bool {
        self.per_key.contains_key(&(invariant, Some(key)))
    }
}

/// Judges a history.
pub fn check(lines: &[Line]) -> Report {
    check_within(lines, &Limits::default())
}

/// [`check`], with limits of the run's own.
pub fn check_within(lines: &[Line], limits: &Limits) -> Report {
    let book = Book::new(lines);
    let mut found = Complaints::default();
    let mut counts = Counts::of(&book);
    book.complain(&mut found);
    let asked = untold::Asked::of(&book);
    let numbers = permits::Numbers::of(&book);
    for (key, of_key) in &book.keys {
        let story = Story::new(&book, key, of_key);
        counts.add(&book, &story);
        windows::check(&book, &story, &mut found);
        tokens::check(&book, &story, &mut found);
        durable::check(&book, &story, &mut found);
        feeds::check(&book, &story, &mut found);
        fences::check(&book, &story, &mut found);
        sessions::check(&book, &story, &mut found);
        promises::check(&book, &story, &mut found);
        restarts::check(&book, &story, &mut found);
        programs::check(&book, &story, &mut found);
        untold::check(&book, &story, &asked, &mut found);
        permits::check(&book, &story, &numbers, &mut found);
        calm::check_key(&book, &story, limits, &mut found);
    }
    durable::check_sessions(&book, &mut found);
    counts.judged = calm::check_calls(&book, limits, &mut found);
    let violations = found.told.iter().map(|complaint| timeline::tell(&book, complaint)).collect();
    Report { violations, untold: found.untold, counts }
}
