//! I5: between the end of a tenure that is to be fenced and the next grant, every plugin did its work, and the store
//! has that. Nobody fences a tenure that lives, nor, where that comes after the next grant, one that nobody followed.

use std::collections::HashMap;

use super::{
    Complaint, Complaints, Event,
    book::Book,
    story::{Commit, Story},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut work: HashMap<(&str, u64), Vec<usize>> = HashMap::new();
    let mut blocks = false;
    for &at in story.lines {
        match book.event(at) {
            Event::Fenced { plugin, token, .. } => {
                work.entry((plugin, *token)).or_default().push(at);
                timely(book, story, at, plugin, *token, found);
            }
            Event::Tried { plugin, token, .. } => timely(book, story, at, plugin, *token, found),
            Event::Blocks { .. } => blocks = true,
            _ => {}
        }
    }
    for (place, end) in story.commits.iter().enumerate() {
        if end.fences.is_empty() || !end.ends() || !story.whole {
            continue;
        }
        let after = &story.commits[place + 1..];
        let Some(next) = after.iter().position(Commit::grants) else { continue };
        let (between, grant) = (&after[..next], &after[next]);
        if book.forgotten_between(end.at, grant.at)
            || between.iter().any(|commit| commit.kind == "fence-skipped")
        {
            continue;
        }
        let before = heard_at_latest(book, story, grant);
        let done = |plugin: &str| {
            work.get(&(plugin, end.token)).is_some_and(|at| {
                at.iter().any(|&at| at < before && (!book.on_time() || at > end.at))
            })
        };
        let missing: Vec<&str> =
            end.fences.iter().map(String::as_str).filter(|plugin| !done(plugin)).collect();
        // A fence that failed for good lets the next one in, if the policy says so.
        let said = |kind: &str| {
            let said = |commit: &&Commit<'_>| commit.kind == kind && commit.token == end.token;
            between.iter().filter(said).count()
        };
        let failed = said("fence-failed");
        if missing.len() > if blocks { 0 } else { failed } {
            report(book, story, end, grant, &missing, &work, found);
        } else if failed + said("fenced") == 0 {
            let headline = format!(
                "{} is granted it, and the fence of token {} is not durable",
                grant.owner, end.token
            );
            found.say("I5", Some(story.key), &[end.at, grant.at], headline);
        }
    }
}

/// A tenure is fenced after its end; by a plugin that its end does not name, after the grant that follows.
fn timely<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    at: usize,
    plugin: &str,
    token: u64,
    found: &mut Complaints<'a>,
) {
    if !book.on_time() || !story.is_told(book) || !book.regresses.is_empty() {
        return;
    }
    let before = &story.commits[..story.commits.partition_point(|commit| commit.at < at)];
    let ended = |commit: &Commit<'_>| commit.ends() && commit.token == token;
    let last = before.iter().rposition(ended);
    let Some(end) = last.filter(|_| story.ended(token, at)) else {
        let grant = story.granted(token).map(|grant| grant.at);
        let lines: Vec<usize> = grant.into_iter().chain([at]).collect();
        let headline = format!("{plugin} fences token {token}, whose tenure has not ended");
        return found.say("I5", Some(story.key), &lines, headline);
    };
    let named = before[end].fences.iter().any(|name| name == plugin);
    if !named && !before[end..].iter().any(Commit::grants) {
        let headline = format!("{plugin} fences token {token}, and nobody was granted it since");
        found.say("I5", Some(story.key), &[before[end].at, at], headline);
    }
}

/// Before which line the work must be done: the grant, or its first answer where the time of the grant is unknown.
fn heard_at_latest<'a>(book: &Book<'a>, story: &Story<'a>, grant: &Commit<'a>) -> usize {
    if book.on_time() {
        return grant.at;
    }
    let told = story.windows.iter().find(|window| window.token == grant.token);
    told.map_or(usize::MAX, |window| window.opened)
}

fn report<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    end: &Commit<'a>,
    grant: &Commit<'a>,
    missing: &[&str],
    work: &HashMap<(&str, u64), Vec<usize>>,
    found: &mut Complaints<'a>,
) {
    let mut lines = vec![end.at, grant.at];
    // What was done too early or too late.
    lines.extend(missing.iter().filter_map(|plugin| work.get(&(*plugin, end.token))).flatten());
    let names = missing.join(", ");
    found.push(Complaint {
        invariant: "I5",
        key: Some(story.key),
        lines,
        headline: format!(
            "{} is granted it, and {names} did not fence token {}",
            grant.owner, end.token
        ),
        mark: Some((book.t(end.at), book.t(grant.at), format!("{names} due here"))),
    });
}
