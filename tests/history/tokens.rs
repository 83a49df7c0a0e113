//! I2: tokens strictly rise in the order of grants; only a tenure that expired goes on under its own.

use super::{
    Complaints,
    book::Book,
    story::{Commit, Story},
};

pub(super) fn check<'a>(_: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    committed(story, found);
    if !found.has("I2", story.key) {
        believed(story, found);
    }
}

/// A tenure goes on that had expired.
pub(super) fn revives(before: Option<&Commit<'_>>, grant: &Commit<'_>) -> bool {
    before.is_some_and(|before| {
        before.kind == "expired" && before.token == grant.token && before.owner == grant.owner
    })
}

fn committed<'a>(story: &Story<'a>, found: &mut Complaints<'a>) {
    let (mut highest, mut ended): (Option<&Commit<'a>>, Option<&Commit<'a>>) = (None, None);
    for commit in &story.commits {
        if commit.ends() {
            ended = Some(commit);
        }
        if !commit.grants() {
            continue;
        }
        if let Some(before) = highest
            && commit.token <= before.token
            && !(commit.token == before.token && revives(ended, commit))
        {
            let headline = match commit.token == before.token {
                true => format!("token {} is given a second time", commit.token),
                false => format!("token {} is given after token {}", commit.token, before.token),
            };
            found.say("I2", Some(story.key), &[before.at, commit.at], headline);
        }
        if highest.is_none_or(|before| commit.token > before.token) {
            highest = Some(commit);
        }
        ended = None;
    }
}

fn believed<'a>(story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut highest: Option<usize> = None;
    for (place, window) in story.windows.iter().enumerate() {
        if window.from >= window.until {
            continue;
        }
        let Some(before) = highest.map(|place| &story.windows[place]) else {
            highest = Some(place);
            continue;
        };
        let lines = [before.opened, window.opened];
        if window.token < before.token {
            let headline = format!(
                "{} is told of token {} after {} was of token {}",
                window.worker, window.token, before.worker, before.token
            );
            found.say("I2", Some(story.key), &lines, headline);
        } else if window.token == before.token && window.worker != before.worker {
            let headline =
                format!("{} and {} have one token, {}", before.worker, window.worker, window.token);
            found.say("I2", Some(story.key), &lines, headline);
        } else {
            highest = Some(place);
        }
    }
}
