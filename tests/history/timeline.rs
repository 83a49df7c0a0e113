//! A violation as a person can read it: what was said of the key around it, in milliseconds since the run began.

use std::fmt::Write;

use super::{
    Complaint, Event, Violation,
    book::{Book, key_of},
};

/// Lines of the key that are shown beside those that show the violation.
const BESIDE: usize = 16;
/// Faults that are shown: how many, and from how long before.
const FAULTS: usize = 6;
const FAULTS_BEFORE: u64 = 10_000_000_000;

pub(super) fn tell(book: &Book<'_>, complaint: &Complaint<'_>) -> Violation {
    let mut shown = complaint.lines.clone();
    shown.sort_unstable();
    shown.dedup();
    let mut text = complaint.invariant.to_owned();
    if let Some(key) = complaint.key {
        let _ = write!(text, ", key {key:?}");
    }
    let _ = writeln!(text, ": {}", complaint.headline);
    let mut marks: Vec<(u64, String)> = Vec::new();
    if let Some((from, to, what)) = &complaint.mark {
        if from == to {
            marks.push((*from, format!("==== {what} ====")));
        } else {
            marks.push((*from, format!("==== {what}, for {} ms ====", ms(to - from))));
            marks.push((*to, "==== until here ====".to_owned()));
        }
    }
    let mut marks = marks.into_iter().peekable();
    for at in around(book, complaint, &shown) {
        while let Some((t, mark)) = marks.next_if(|(t, _)| *t < book.t(at)) {
            let _ = writeln!(text, "          {:>13}  {mark}", since(book, t));
        }
        let sign = if shown.binary_search(&at).is_ok() { '>' } else { ' ' };
        let told = line(book, book.event(at), complaint.key);
        let number = format!("#{}", at + 1);
        let _ = writeln!(text, "{sign} {number:>7} {:>13}  {told}", since(book, book.t(at)));
    }
    for (t, mark) in marks {
        let _ = writeln!(text, "          {:>13}  {mark}", since(book, t));
    }
    let lines = shown.into_iter().map(|at| at + 1).collect();
    Violation { invariant: complaint.invariant, text, lines }
}

/// The lines to be shown, in order: those of the complaint, their neighbours, and faults.
fn around(book: &Book<'_>, complaint: &Complaint<'_>, shown: &[usize]) -> Vec<usize> {
    let (Some(&first), Some(&last)) = (shown.first(), shown.last()) else { return Vec::new() };
    let mut all = shown.to_vec();
    let of_key = complaint
        .key
        .and_then(|key| book.keys.binary_search_by_key(&key, |(name, _)| name).ok())
        .map_or(&[][..], |place| &book.keys[place].1);
    let from = of_key.partition_point(|at| *at < first).saturating_sub(3);
    let to = of_key.partition_point(|at| *at <= last).saturating_add(2).min(of_key.len());
    let mut beside: Vec<usize> = of_key[from..to].to_vec();
    beside.retain(|at| shown.binary_search(at).is_err());
    // What matters most first, and of that the nearest.
    beside.sort_by_key(|at| {
        let far = shown.iter().map(|shown| shown.abs_diff(*at)).min();
        (dull(book.event(*at), complaint.invariant), far)
    });
    all.extend(beside.into_iter().take(BESIDE));
    let began = book.t(first).saturating_sub(FAULTS_BEFORE);
    let faults = &book.faults[..book.faults.partition_point(|at| *at <= last)];
    let near = faults.iter().rev().take_while(|at| book.t(**at) >= began).take(FAULTS);
    all.extend(near.filter(|at| !matches!(book.event(**at), Event::Over)));
    all.sort_unstable();
    all.dedup();
    all
}

/// What says least about a violation is left out first.
fn dull(event: &Event, invariant: &str) -> u8 {
    match event {
        Event::Committed { .. } | Event::Shut { .. } | Event::Cut { .. } => 0,
        Event::Stood { .. } => 0,
        Event::Told { grant: true, .. } | Event::Fenced { .. } => 0,
        Event::Heard { .. } if invariant == "I4" => 0,
        Event::Told { .. } | Event::Acknowledged { .. } => 1,
        Event::Asked { .. } => 2,
        _ => 3,
    }
}

/// Nanoseconds as milliseconds.
fn ms(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000_000, nanos / 1_000 % 1_000)
}

/// When, since the run began.
fn since(book: &Book<'_>, t: u64) -> String {
    let began = book.lines.first().map_or(0, |line| line.t);
    if t == u64::MAX { "never".to_owned() } else { ms(t.saturating_sub(began)) }
}

fn line(book: &Book<'_>, event: &Event, of: Option<&str>) -> String {
    let told = what(book, event);
    match key_of(event) {
        Some(key) if of.is_none() => format!("{told}   (key {key:?})"),
        _ => told,
    }
}

fn under(session: Option<&String>) -> String {
    session.map_or_else(String::new, |session| format!(", under session {session}"))
}

fn what(book: &Book<'_>, event: &Event) -> String {
    match event {
        Event::Run { maker, store, seed, commit } => {
            format!("run of {maker} on {store}, seed {seed}, commit {commit}")
        }
        Event::Fault { fault, at } => format!("FAULT {fault} at {at}"),
        Event::Calm => "the faults are over".to_owned(),
        Event::Over => "the run is over".to_owned(),
        Event::Whole => "the history is whole up to here".to_owned(),
        Event::Judged => "what is above was judged before".to_owned(),
        Event::LateCommits => "(the store's lines stand where they were read)".to_owned(),
        Event::Seen { sight } => format!("{sight:?}"),
        Event::Tombstone { session } => format!("store: session {session} is dead"),
        Event::Reset { subscriber } => format!("{subscriber} hears a reset"),
        Event::Committed { seq, kind, token, owner, session, fences, .. } => {
            let fences = match fences.is_empty() {
                true => String::new(),
                false => format!(", to be fenced by {}", fences.join(", ")),
            };
            let under = under(session.as_ref());
            format!("store: {seq}. {kind}, token {token} of {owner}{under}{fences}")
        }
        Event::InForce { node, prefix, permits } => {
            format!("{node} grants the keys under {prefix} by {permits} permits")
        }
        Event::All { node, leases, .. } => format!("{node} gives all permits: {leases}"),
        Event::Heard { subscriber, seq, kind, token, .. } => {
            format!("{subscriber} hears {seq}. {kind}, token {token}")
        }
        Event::Fenced { plugin, token, .. } => format!("{plugin} fenced token {token}"),
        Event::Tried { plugin, token, .. } => format!("{plugin} did not fence token {token}"),
        Event::Blocks { .. } => "a fence that fails shuts the key".to_owned(),
        Event::Stood { token, until: None, .. } => {
            format!("after a restart nobody holds it; the last token is {token}")
        }
        Event::Stood { token, until: Some(until), .. } => {
            format!("after a restart token {token} is held, at least until {}", since(book, *until))
        }
        Event::Ran { program, token, began, .. } => {
            let how = if *began { "begins to run" } else { "runs" };
            format!("program {program} {how} under token {token}")
        }
        Event::Promised { node, token, decided, until, d, ttl, .. } => format!(
            "{node} promises token {token}: decided {}, until {}, record ends {}, ttl {} ms (its clock)",
            ms(*decided),
            ms(*until),
            if *d == u64::MAX { "never".to_owned() } else { ms(*d) },
            ms(*ttl)
        ),
        Event::Wrote { token, taken, .. } => {
            format!("a write under token {token} is {}", if *taken { "taken" } else { "refused" })
        }
        _ => call(book, event),
    }
}

/// What workers ask, are told and do.
fn call(book: &Book<'_>, event: &Event) -> String {
    match event {
        Event::Asked { call, worker, op, answer_by, .. } => {
            let by = answer_by.map_or_else(String::new, |by| format!(", due {}", since(book, by)));
            format!("{worker} asks {op:?} (call {call}{by})")
        }
        Event::Told { worker, token, until, grant, session, .. } => format!(
            "{worker} is {} token {token}{}: believes until {}",
            if *grant { "granted" } else { "kept under" },
            under(session.as_ref()),
            since(book, *until)
        ),
        Event::Refused { call, why } => format!("call {call} is refused: {why}"),
        Event::Lost { call } => format!("call {call} has lost its answer"),
        Event::Acknowledged { call, op, token, .. } => {
            format!("{op:?} of token {token} is acknowledged (call {call})")
        }
        Event::SessionEndAcknowledged { call, session } => {
            format!("the end of session {session} is acknowledged (call {call})")
        }
        Event::Shut { worker, token, why, .. } => {
            format!("{worker} believes in token {token} no more: {why}")
        }
        Event::Cut { token, why, .. } => format!("token {token} is cut: {why}"),
        _ => String::new(),
    }
}
