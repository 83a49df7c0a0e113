//! After a restart: what a coordinator shows of a key is what the store committed (I3), and a tenure that stood has a
//! whole ttl before anybody else has the key (R10).

use super::{
    Complaint, Complaints, Event, Op,
    book::Book,
    story::{Commit, Story},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    if !book.in_order() {
        return;
    }
    for (place, &at) in story.lines.iter().enumerate() {
        let Event::Stood { token, until, .. } = book.event(at) else { continue };
        if at >= book.judged {
            shown(book, story, at, *token, *until, found);
        }
        if let Some(until) = until {
            grace(book, story, place, *token, *until, found);
        }
    }
}

fn shown<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    at: usize,
    token: u64,
    until: Option<u64>,
    found: &mut Complaints<'a>,
) {
    let last = story.commits.iter().rev().find(|commit| commit.grants() && commit.at < at);
    let Some(last) = last else { return };
    // An end may be there a moment before who looks sees it; within the grace of its tenure none may.
    let held = until.filter(|until| *until > book.t(at)).is_some();
    let headline = if token < last.token {
        format!("after a restart its token is {token}, and {} was granted", last.token)
    } else if held && story.ended(token, at) {
        format!("after a restart token {token} is held, and has ended")
    } else if until.is_none()
        && story.granted(token).is_some()
        && !story.ended(token, book.due(at).unwrap_or(usize::MAX))
    {
        format!("after a restart nobody holds it, and token {token} has no end")
    } else {
        return;
    };
    let of_token = |commit: &&Commit<'a>| commit.token == token && commit.at < at;
    let known = story.commits.iter().rev().find(of_token).unwrap_or(last).at;
    let lines = if token < last.token { [last.at, at] } else { [known, at] };
    found.say("I3", Some(story.key), &lines, headline);
}

/// Until the grace of a tenure is over, nobody else is told that he has the key, and its holder not that he lost it;
/// but where the holder gave it up.
fn grace<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    place: usize,
    token: u64,
    until: u64,
    found: &mut Complaints<'a>,
) {
    let gave_up = |at: &usize| match book.event(*at) {
        Event::Shut { token: shut, .. } | Event::Cut { token: shut, .. } => *shut == token,
        _ => false,
    };
    let stood = story.lines[place];
    if story.lines[..place].iter().any(gave_up) {
        return;
    }
    let holder = story.granted(token).map(|grant| grant.owner);
    for &at in story.lines[place + 1..].iter().take_while(|at| book.t(**at) < until) {
        if gave_up(&at) {
            return;
        }
        let (told, headline) = match book.event(at) {
            Event::Told { worker, token: other, .. } if *other != token => {
                (at, format!("{worker} is told of token {other} in the grace of token {token}"))
            }
            Event::Asked { call, worker, op: Op::Heartbeat, .. } if Some(&**worker) == holder => {
                let answer = book.answered.get(call).copied();
                let refused = answer.filter(|at| matches!(book.event(*at), Event::Refused { .. }));
                let Some(told) = refused.filter(|at| book.t(*at) < until) else { continue };
                (told, format!("token {token} was lost in its grace"))
            }
            _ => continue,
        };
        return found.push(Complaint {
            invariant: "R10",
            key: Some(story.key),
            lines: vec![stood, at, told],
            headline,
            mark: Some((book.t(told), until, "left of its grace".to_owned())),
        });
    }
}
