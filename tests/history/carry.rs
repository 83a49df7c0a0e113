//! A history that is too long for the memory is judged in parts.

use std::collections::BTreeSet;

use super::{
    Event, Line, Op,
    book::Book,
    story::{Commit, Story},
};

/// What of a part that was judged, and that ends with [`Event::Whole`], the next part needs: of each key the last
/// grant and what follows it, and the windows and graces that reach beyond the part. It loses nothing of I1 to I4 and
/// R10; sessions, fences, subscribers and calls that are due after the faults are judged in one part.
pub fn carry(lines: &[Line]) -> Vec<Line> {
    let book = Book::new(lines);
    let over = book.over();
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    for (key, of_key) in &book.keys {
        let story = Story::new(&book, key, of_key);
        let last = story.commits.iter().rposition(Commit::grants);
        let commits = &story.commits[last.unwrap_or(story.commits.len().saturating_sub(1))..];
        kept.extend(commits.iter().map(|commit| commit.at));
        let granted = last.map_or(0, |place| story.commits[place].token);
        let told = story.windows.iter().map(|window| window.token).max().unwrap_or(0);
        let reaching = |at: &usize| match book.event(*at) {
            Event::Told { token, until, .. } if *until > over => Some(*token),
            _ => None,
        };
        let reach: BTreeSet<u64> = of_key.iter().filter_map(reaching).collect();
        let matters = |token: u64| token >= granted.min(told) || reach.contains(&token);
        kept.extend(of_key.iter().filter(|at| match book.event(**at) {
            Event::Told { token, .. } | Event::Shut { token, .. } | Event::Cut { token, .. } => {
                matters(*token)
            }
            Event::Acknowledged { op: Op::Revoke, token, .. } => matters(*token),
            Event::Stood { until, .. } => until.is_some_and(|until| until > over),
            _ => false,
        }));
    }
    let mut carried: Vec<Line> = kept.into_iter().map(|at| book.lines[at].clone()).collect();
    carried.push(Line { t: over, event: Event::Judged });
    carried
}
