//! I5: between the end of a tenure that is to be fenced and the next grant, every plugin did its work.

use std::collections::HashMap;

use super::{
    Complaint, Complaints, Event,
    book::Book,
    story::{Commit, Story},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut work: HashMap<(&str, u64), Vec<usize>> = HashMap::new();
    for &at in story.lines {
        if let Event::Fenced { plugin, token, .. } = book.event(at) {
            work.entry((plugin, *token)).or_default().push(at);
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
        let failed =
            |commit: &&Commit<'_>| commit.kind == "fence-failed" && commit.token == end.token;
        if missing.len() > between.iter().filter(failed).count() {
            report(book, story, end, grant, &missing, &work, found);
        }
    }
}

/// Before which line the work must be done: the grant, or where nobody knows when that was, its first answer.
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
