//! What the programs wrote, as a history: each line is a sign of life.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::history::{Event, Line};

/// A line that a program wrote.
struct Sign<'a> {
    what: &'a str,
    token: u64,
    pid: &'a str,
    /// On `CLOCK_BOOTTIME`, in nanoseconds.
    at: u64,
}

impl<'a> Sign<'a> {
    fn parse(line: &'a str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, token, pid, at] = words[..] else { panic!("{line:?} is no line") };
        assert!(["begin", "overlap", "beat", "end"].contains(&what), "{line:?} is no line");
        let seconds: f64 = at.parse().unwrap_or_else(|why| panic!("{line:?}: {why}"));
        let token = token.parse().unwrap_or_else(|why| panic!("{line:?}: {why}"));
        Self { what, token, pid, at: (seconds * 1e9).round() as u64 }
    }

    fn line(&self, key: &str, began: bool, t: u64) -> Line {
        let (program, key) = (self.pid.to_owned(), key.to_owned());
        Line { t, event: Event::Ran { program, key, token: self.token, began } }
    }
}

/// All that the programs of one key wrote, in this order.
fn history(key: &str, text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    // Who has the lock that only one living process can have.
    let mut locked: Option<Sign<'_>> = None;
    for sign in text.lines().map(Sign::parse) {
        let began = matches!(sign.what, "begin" | "overlap");
        lines.push(sign.line(key, began, sign.at));
        if sign.what == "overlap" {
            // Whoever has it lives; who that is remains unknown where no line says so.
            let unknown = || Sign { what: "begin", pid: "unknown", ..sign };
            let other = locked.get_or_insert_with(unknown);
            lines.push(other.line(key, other.pid == "unknown", sign.at));
            lines.push(sign.line(key, false, sign.at));
        } else if began {
            locked = Some(sign);
        }
    }
    lines
}

/// The history of all keys.
pub fn gather(dir: &Path) -> Vec<Line> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let text = fs::read_to_string(entry.path()).expect("text");
        lines.extend(history(&entry.file_name().to_string_lossy(), &text));
    }
    lines
}

/// The tokens of each key.
pub fn tokens(lines: &[Line]) -> BTreeMap<String, BTreeSet<u64>> {
    let mut keys: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for line in lines {
        if let Event::Ran { key, token, .. } = &line.event {
            keys.entry(key.clone()).or_default().insert(*token);
        }
    }
    keys
}

/// How many tenures there were, and how many keys had several.
pub fn tenures(lines: &[Line]) -> (usize, usize) {
    let keys = tokens(lines);
    let moved = keys.values().filter(|tokens| tokens.len() > 1).count();
    (keys.values().map(BTreeSet::len).sum(), moved)
}

/// The moment of the last line, in milliseconds of `CLOCK_BOOTTIME`.
pub fn last_sign(dir: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
    text.lines().next_back().map(Sign::parse).map_or(0, |sign| sign.at / 1_000_000)
}

/// The lock tells of two programs however short they live together.
#[test]
fn an_overlap_that_only_the_lock_saw() {
    let broken = |text: &str| crate::history::check(&history("k", text)).broken();
    assert!(broken("begin 1 10 1.00\nbeat 1 10 1.40\nend 1 10 1.50\nbegin 2 11 1.60\n").is_empty());
    assert!(broken("begin 2 10 1.00\noverlap 3 11 1.10\n").contains("I1"));
    assert!(broken("overlap 3 11 1.10\n").contains("I1"));
}
