//! Programs that run under tenures, each from its first sign of life to its last: of one key no two at once (I1), and
//! under tokens that do not fall (I2).

use std::collections::HashMap;

use super::{Complaints, Event, book::Book, story::Story};

struct Life<'a> {
    program: &'a str,
    token: u64,
    first: usize,
    last: usize,
}

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    let lives = lives(book, story, found);
    let mut furthest: Option<&Life<'a>> = None;
    for pair in lives.windows(2) {
        let before = furthest.filter(|life| life.last > pair[0].last).unwrap_or(&pair[0]);
        let next = &pair[1];
        if before.last > next.first {
            let headline = format!("programs {} and {} run at once", before.program, next.program);
            let lines = [before.first, next.first, before.last];
            found.say("I1", Some(story.key), &lines, headline);
        }
        if next.token < pair[0].token {
            let headline = format!(
                "a program begins under token {} after one under {}",
                next.token, pair[0].token
            );
            found.say("I2", Some(story.key), &[pair[0].first, next.first], headline);
        }
        furthest = Some(before);
    }
}

/// In the order in which they began.
fn lives<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) -> Vec<Life<'a>> {
    let mut lives: Vec<Life<'a>> = Vec::new();
    let mut known: HashMap<(&str, u64), usize> = HashMap::new();
    for &at in story.lines {
        let Event::Ran { program, token, began, .. } = book.event(at) else { continue };
        let place = *known.entry((program, *token)).or_insert(lives.len());
        if let Some(life) = lives.get_mut(place) {
            if *began {
                let headline = format!("program {program} begins twice");
                found.say("log", Some(story.key), &[life.first, at], headline);
            }
            life.last = at;
            continue;
        }
        if !began {
            let headline = format!("program {program} runs, and never began");
            found.say("log", Some(story.key), &[at], headline);
        }
        lives.push(Life { program, token: *token, first: at, last: at });
    }
    lives
}
