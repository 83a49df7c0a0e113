//! I3: what was told or acknowledged is in the store's history, and was there before anybody heard of it.

use std::collections::{HashMap, HashSet};

use super::{
    Complaint, Complaints, Event, Op,
    book::{Book, Commits},
    story::{Commit, Story},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    orders(book, story, found);
    if !story.is_told(book) {
        return;
    }
    if book.commits == Commits::Read {
        asked_for(book, story, found);
    }
    let mut known = HashSet::new();
    for &at in story.lines.iter().filter(|at| **at >= book.judged) {
        match book.event(at) {
            Event::Told { call, worker, token, .. } if known.insert((worker, *token)) => {
                let op = book.question(*call).map(|(_, op)| op);
                // Sessions have a history of their own: their tombstones.
                if !matches!(op, Some(Op::OpenSession | Op::BeatSession)) {
                    told(book, story, at, worker, *token, found);
                }
            }
            Event::Acknowledged { op: Op::Release | Op::Transfer, token, .. } => {
                acknowledged(book, story, at, *token, found);
            }
            _ => {}
        }
    }
    succession(book, story, found);
}

/// A grant that a worker was told.
fn told<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    at: usize,
    worker: &str,
    token: u64,
    found: &mut Complaints<'a>,
) {
    let mut say = |lines: &[usize], headline| found.say("I3", Some(story.key), lines, headline);
    let Some(grant) = story.granted(token) else {
        if !book.forgotten_after(at) && book.is_judged(at) {
            say(&[at], format!("{worker} is told of token {token}, which the store never granted"));
        }
        return;
    };
    if grant.owner != worker {
        let owner = grant.owner;
        say(&[at, grant.at], format!("{worker} is told of token {token}, which {owner} has"));
    } else if book.due(at).is_some_and(|due| grant.at > due) {
        say(&[at, grant.at], format!("{worker} is told of token {token} before it is durable"));
    }
}

/// An end that somebody was told is durable. It may have come about in another way before.
fn acknowledged<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    at: usize,
    token: u64,
    found: &mut Complaints<'a>,
) {
    let ends = story.ends.get(&token).map_or(&[][..], Vec::as_slice);
    let first = ends.first().map(|end| story.line(*end));
    let released = matches!(book.event(at), Event::Acknowledged { op: Op::Release, .. });
    let kind = |end: &usize| story.commits[*end].kind;
    let released_otherwise = released
        && book.commits == Commits::Read
        && !ends.iter().any(|end| kind(end) == "released");
    match first {
        None if !book.forgotten_after(at) && book.is_judged(at) => {
            let headline =
                format!("the end of token {token} was acknowledged, and never committed");
            found.say("I3", Some(story.key), &[at], headline);
        }
        Some(end) if book.due(at).is_some_and(|due| end > due) => {
            let headline =
                format!("the end of token {token} was acknowledged before it is durable");
            found.say("I3", Some(story.key), &[at, end], headline);
        }
        Some(end) if released_otherwise => {
            let headline =
                format!("the release of token {token} was acknowledged, and it ended otherwise");
            found.say("I3", Some(story.key), &[at, end], headline);
        }
        _ => {}
    }
}

/// Every grant has a caller who asked for the key, and was not refused.
fn asked_for<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut calls: HashMap<&str, Vec<(usize, u64)>> = HashMap::new();
    for &at in story.lines {
        if let Event::Asked { call, worker, op: Op::Acquire, .. } = book.event(at) {
            calls.entry(worker).or_default().push((at, *call));
        }
    }
    let refused = |call: u64| {
        let answer = book.answered.get(&call).copied();
        answer.filter(|at| matches!(book.event(*at), Event::Refused { .. }))
    };
    let first = |commit: &&Commit<'a>| {
        let of_token = story.grants.get(&commit.token);
        of_token.is_some_and(|grants| story.line(grants[0]) == commit.at)
    };
    for grant in story.commits.iter().filter(|c| c.grants() && c.at >= book.judged).filter(first) {
        let calls = calls.get(grant.owner).map_or(&[][..], Vec::as_slice);
        let calls = &calls[..calls.partition_point(|(at, _)| *at < grant.at)];
        let answers: Vec<usize> = calls.iter().filter_map(|(_, call)| refused(*call)).collect();
        if answers.len() < calls.len() {
            continue;
        }
        let how = if calls.is_empty() { "never asked for it" } else { "was refused it" };
        let headline =
            format!("the store grants token {} to {}, who {how}", grant.token, grant.owner);
        let lines: Vec<usize> =
            calls.iter().map(|(at, _)| *at).chain(answers).chain([grant.at]).collect();
        found.say("I3", Some(story.key), &lines, headline);
    }
}

/// Every tenure that another one follows has an end, and every end is that of the tenure before.
fn succession<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut held: Option<&Commit<'a>> = None;
    let mut ended: Option<&Commit<'a>> = None;
    let mut before: Option<usize> = None;
    for commit in &story.commits {
        if before.is_some_and(|before| book.forgotten_between(before, commit.at)) {
            (held, ended) = (None, None);
        } else if let Some(lost) = held
            && commit.grants()
        {
            let headline =
                format!("token {} has no end, and token {} follows", lost.token, commit.token);
            found.say("I3", Some(story.key), &[lost.at, commit.at], headline);
        } else if commit.ends() && held.is_none_or(|held| held.token != commit.token) {
            // An offer that an administrator withdraws is "revoked", and nobody's.
            let nobodys = commit.kind == "revoked" && held.is_none();
            if !nobodys && book.regresses.is_empty() {
                let headline = format!("token {} ends, and is nobody's", commit.token);
                let others = held.or(ended).map(|other| other.at);
                let lines: Vec<usize> = others.into_iter().chain([commit.at]).collect();
                found.say("I3", Some(story.key), &lines, headline);
            }
        }
        before = Some(commit.at);
        if commit.grants() {
            held = Some(commit);
        } else if commit.ends() {
            (held, ended) = (None, Some(commit));
        }
    }
}

/// After an administrator's order was acknowledged, nobody is promised anything under the token.
fn orders<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut ordered: HashMap<u64, usize> = HashMap::new();
    for &at in story.lines {
        match book.event(at) {
            Event::Acknowledged { op: Op::Revoke, token, .. } => {
                ordered.entry(*token).or_insert(at);
            }
            Event::Told { call, worker, token, until, .. } => {
                let Some(&order) = ordered.get(token) else { continue };
                let asked = book.question(*call).map(|(asked, _)| asked);
                if asked.is_some_and(|asked| asked > order) && !book.forgotten_between(order, at) {
                    let headline = format!(
                        "token {token} was ordered to end, and {worker} is promised more of it"
                    );
                    found.push(Complaint {
                        invariant: "I3",
                        key: Some(story.key),
                        lines: asked.into_iter().chain([order, at]).collect(),
                        headline,
                        mark: Some((book.t(at), *until, "promised after the order".to_owned())),
                    });
                }
            }
            _ => {}
        }
    }
}

/// The end of a session that was acknowledged has its tombstone.
pub(super) fn check_sessions<'a>(book: &Book<'a>, found: &mut Complaints<'a>) {
    if !book.has_store {
        return;
    }
    for &at in &book.session_ends {
        let Event::SessionEndAcknowledged { session, .. } = book.event(at) else { continue };
        match book.tombstones.get(session.as_str()) {
            None if !book.forgotten_after(at) => {
                let headline = format!(
                    "the end of session {session} was acknowledged, and it has no tombstone"
                );
                found.say("I3", None, &[at], headline);
            }
            Some(&stone) if book.on_time() && stone > at => {
                let headline =
                    format!("the end of session {session} was acknowledged before its tombstone");
                found.say("I3", None, &[at, stone], headline);
            }
            _ => {}
        }
    }
}
