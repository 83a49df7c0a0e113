//! I7: no promise is decided at or after the end of the node's record, nor reaches beyond it by more than the ttl.
//! And the protected counter: a write under a lower token than that of a write before is not taken.

use super::{Complaints, Event, book::Book, story::Story};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let mut highest: Option<(u64, usize)> = None;
    for &at in story.lines {
        match book.event(at) {
            Event::Promised { node, decided, until, d, ttl, .. } => {
                let headline = if decided >= d {
                    format!("{node} promises, and its record has run out")
                } else if *until > d.saturating_add(*ttl) {
                    format!("{node} promises more than its record's end and the ttl")
                } else {
                    continue;
                };
                found.say("I7", Some(story.key), &[at], headline);
            }
            Event::Wrote { token, taken: true, .. } => {
                if let Some((before, line)) = highest
                    && *token < before
                {
                    let headline =
                        format!("a write under token {token} is taken after one under {before}");
                    found.say("counter", Some(story.key), &[line, at], headline);
                } else if highest.is_none_or(|(before, _)| *token > before) {
                    highest = Some((*token, at));
                }
            }
            _ => {}
        }
    }
}
