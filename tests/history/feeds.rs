//! I4: what a subscriber is told of a key has the numbers 1, 2, 3… without a hole that no reset covers, and is
//! what the store committed.

use std::collections::HashMap;

use super::{
    Complaints, Event,
    book::Book,
    story::{Commit, Story},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    numbers(book, story, found);
    heard(book, story, found);
}

/// The store's own history of the key.
fn numbers<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut before: Option<&Commit<'a>> = None;
    for commit in &story.commits {
        let known =
            before.map(|before| before.seq).or((commit.at < book.judged).then(|| commit.seq - 1));
        let due = known.map_or(1, |seq| seq + 1);
        let forgotten = book.forgotten_between(before.map_or(0, |before| before.at), commit.at);
        let twice = !book.in_order() && commit.seq + 1 == due;
        let hole = book.in_order() && commit.seq != due;
        if (hole || twice) && !forgotten {
            let lines: Vec<usize> =
                before.map(|before| before.at).into_iter().chain([commit.at]).collect();
            let headline = match commit.seq < due {
                true => format!("the store's history has number {} twice", commit.seq),
                false => {
                    format!("the store's history has number {} where {due} is due", commit.seq)
                }
            };
            found.say("I4", Some(story.key), &lines, headline);
        }
        before = Some(commit);
    }
}

/// What was heard of a number: where, and what.
type Known<'a> = (usize, &'a str, u64);

#[derive(Default)]
struct Listener<'a> {
    last: Option<(u64, usize)>,
    known: HashMap<u64, Known<'a>>,
}

fn heard<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut committed: HashMap<u64, Vec<&Commit<'a>>> = HashMap::new();
    for commit in &story.commits {
        committed.entry(commit.seq).or_default().push(commit);
    }
    let mut listeners: HashMap<&str, Listener<'a>> = HashMap::new();
    for &at in story.lines {
        let Event::Heard { subscriber, seq, kind, token, .. } = book.event(at) else { continue };
        let listener = listeners.entry(subscriber).or_default();
        let known = (at, kind.as_str(), *token);
        if let Some(fault) = listener.hear(book, subscriber, *seq, known) {
            found.say("I4", Some(story.key), &fault.1, fault.0);
        }
        if !story.commits.is_empty() && story.is_told(book) {
            let there = committed.get(seq).map_or(&[][..], Vec::as_slice);
            compare(book, story, subscriber, (*seq, known), there, found);
        }
    }
}

impl<'a> Listener<'a> {
    fn hear(
        &mut self,
        book: &Book<'a>,
        subscriber: &str,
        seq: u64,
        known: Known<'a>,
    ) -> Option<(String, Vec<usize>)> {
        let (at, kind, token) = known;
        let from = self.last.map_or(0, |(_, at)| at);
        let resets = book.resets.get(subscriber).map_or(&[][..], Vec::as_slice);
        let after = resets.partition_point(|reset| *reset < from);
        let covered = resets.get(after).is_some_and(|reset| *reset < at);
        let last = self.last.map_or(0, |(seq, _)| seq);
        if covered {
            // What follows may begin anywhere; after a store that went backwards it is another history.
            self.known.retain(|_, known| !book.forgotten_between(known.0, at));
        }
        if let Some(before) = self.known.get(&seq) {
            // It is told again, as after every broken connection.
            self.last = if covered { Some((seq, at)) } else { self.last.max(Some((seq, at))) };
            let other = (before.1, before.2) != (kind, token);
            return other.then(|| {
                (format!("{subscriber} hears of {seq} twice, and differently"), vec![before.0, at])
            });
        }
        let before = self.last.replace((seq, at)).map(|(_, at)| at);
        self.known.insert(seq, known);
        (!covered && seq != last + 1).then(|| {
            let lines = before.into_iter().chain([at]).collect();
            (format!("{subscriber} hears of {seq} where {} is due, and no reset", last + 1), lines)
        })
    }
}

fn compare<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    subscriber: &str,
    (seq, (at, kind, token)): (u64, Known<'a>),
    committed: &[&Commit<'a>],
    found: &mut Complaints<'a>,
) {
    let key = Some(story.key);
    let Some(first) = committed.first() else {
        let headline = format!("{subscriber} hears of {seq}, which was never committed");
        return found.say("I4", key, &[at], headline);
    };
    let Some(there) = committed.iter().find(|c| (c.kind, c.token) == (kind, token)) else {
        let headline = format!("{subscriber} hears of {seq}, and the store has something else");
        return found.say("I4", key, &[first.at, at], headline);
    };
    if book.on_time() && there.at > at {
        let headline = format!("{subscriber} hears of {seq} before it is durable");
        found.say("I4", key, &[at, there.at], headline);
    }
}
