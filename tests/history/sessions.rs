//! I6: a lease that a session keeps ends by the session's end only once its tombstone is durable; nobody else is
//! granted it before that without consent, and nobody believes in it after that.

use super::{
    Complaint, Complaints,
    book::Book,
    story::{Commit, Story},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    if story.is_told(book) {
        ends(book, story, found);
        if book.on_time() {
            beliefs(book, story, found);
        }
    }
}

/// How a session's lease may end while the session lives: by consent, or by an administrator's order.
fn by_order(commit: &Commit<'_>) -> bool {
    matches!(commit.kind, "released" | "transferred" | "reclaimed" | "revoked")
}

fn ends<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    for commit in story.commits.iter().filter(|commit| commit.ends() && !by_order(commit)) {
        let session = commit.session.or_else(|| story.sessions.get(&commit.token).copied());
        let Some(session) = session else { continue };
        let stone = book.tombstones.get(session).copied();
        if stone.is_some_and(|stone| stone < commit.at || !book.on_time())
            || book.forgotten_after(commit.at)
        {
            continue;
        }
        let grant = story.granted(commit.token).map(|grant| grant.at);
        let headline = format!(
            "token {} {} before session {session} has a tombstone",
            commit.token, commit.kind
        );
        let lines: Vec<usize> = grant.into_iter().chain([commit.at]).chain(stone).collect();
        found.say("I6", Some(story.key), &lines, headline);
    }
}

/// A tombstone is written when all promises of the session have run out, or its holder closed its windows.
fn beliefs<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    for window in &story.windows {
        let Some(session) = story.sessions.get(&window.token) else { continue };
        let Some(&stone) = book.tombstones.get(session) else { continue };
        let then = book.t(stone);
        if window.until <= then || window.from >= window.until {
            continue;
        }
        let mut lines = vec![window.opened, stone];
        lines.extend((window.kept != window.opened).then_some(window.kept));
        found.push(Complaint {
            invariant: "I6",
            key: Some(story.key),
            lines,
            headline: format!(
                "session {session} is dead, and {} believes in its lease",
                window.worker
            ),
            mark: Some((
                then.max(window.from),
                window.until,
                format!("{} believes on", window.worker),
            )),
        });
    }
}
