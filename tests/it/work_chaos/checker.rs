//! What the children wrote, and whether it may be so.

use std::{fs, path::Path};

/// A line that a child wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    what: String,
    token: u64,
    pid: u32,
    /// Seconds of `CLOCK_BOOTTIME`.
    at: f64,
}

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let what = words.next()?.to_owned();
    let (token, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let at = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Line { what, token, pid, at })
}

/// What was found in one file: its lines in the order in which they were written, or what is wrong.
pub fn check(key: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut present: Option<Line> = None;
    for written in text.lines() {
        let Some(line) = parse(written) else {
            faults.push(format!("{key}: {written:?} is no line"));
            continue;
        };
        let fault = match (&present, line.what.as_str()) {
            (_, "overlap") => Some("began while another lived"),
            (Some(before), "begin") if line.token < before.token => {
                Some("has a lower token than the one before")
            }
            (Some(before), "begin")
                if line.token == before.token && before.what != "end" && line.pid == before.pid =>
            {
                Some("began twice")
            }
            (_, "begin") => None,
            (Some(before), _) if line.token == before.token && line.pid == before.pid => None,
            _ => Some("is not the one that began last"),
        };
        if let Some(fault) = fault {
            faults.push(format!("{key}: {line:?} {fault}; before it: {present:?}"));
        }
        if matches!(line.what.as_str(), "begin" | "overlap") || present.is_none() {
            present = Some(line);
        }
    }
    faults
}

/// All that is wrong in a directory, how many tenures there were, and how many keys had several.
pub fn check_all(dir: &Path) -> (Vec<String>, usize, usize) {
    let (mut faults, mut tenures, mut moved) = (Vec::new(), 0, 0);
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let text = fs::read_to_string(entry.path()).expect("text");
        faults.extend(check(&entry.file_name().to_string_lossy(), &text));
        let begun: std::collections::BTreeSet<u64> =
            text.lines().filter_map(parse).map(|line| line.token).collect();
        tenures += begun.len();
        moved += usize::from(begun.len() > 1);
    }
    (faults, tenures, moved)
}

/// The moment of the last line, in seconds of `CLOCK_BOOTTIME`.
pub fn last_sign(dir: &Path, name: &str) -> f64 {
    let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
    text.lines().next_back().and_then(parse).map_or(0.0, |line| line.at)
}

#[test]
fn the_checker_bites() {
    let faults = |text: &str| check("k", text).len();
    assert_eq!(
        faults("begin 1 10 1.00\nbeat 1 10 1.40\nend 1 10 1.50\nbegin 2 11 1.60\nbeat 2 11 2.00\n"),
        0
    );
    assert_eq!(
        faults("begin 1 10 1.00\nbegin 1 12 3.00\nbegin 4 13 9.00\n"),
        0,
        "started again, killed, taken over"
    );
    assert_eq!(faults("begin 2 10 1.00\noverlap 3 11 1.10\n"), 1);
    assert_eq!(faults("begin 2 10 1.00\nbegin 1 11 1.10\n"), 1);
    assert_eq!(faults("begin 1 10 1.00\nbegin 2 11 1.10\nbeat 1 10 1.20\n"), 1);
    assert_eq!(faults("begin 1 10 1.00\nnonsense\n"), 1);
}
