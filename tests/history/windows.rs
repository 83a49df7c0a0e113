//! I1: nobody believes in a key while another does, nor when the store has ended its tenure.

use super::{
    Complaint, Complaints,
    book::Book,
    story::{Story, Window},
};

pub(super) fn check<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    overlaps(story, found);
    if book.on_time() && story.is_told(book) {
        ended(book, story, found);
    }
}

/// Of all windows so far the one that reaches furthest, and the one that does among those of other tenures.
#[derive(Default)]
struct Furthest {
    first: Option<usize>,
    second: Option<usize>,
}

impl Furthest {
    /// The one that reaches furthest and is of another tenure.
    fn rival(&self, windows: &[Window<'_>], of: &Window<'_>) -> Option<usize> {
        let other = |place: &usize| windows[*place].tenure() != of.tenure();
        self.first.filter(other).or(self.second.filter(other))
    }

    fn add(&mut self, windows: &[Window<'_>], place: usize) {
        let new = &windows[place];
        let reaches =
            |than: Option<usize>| than.is_none_or(|than| new.until >= windows[than].until);
        let same = self.first.is_some_and(|first| windows[first].tenure() == new.tenure());
        if reaches(self.first) {
            self.second = if same { self.second } else { self.first };
            self.first = Some(place);
        } else if !same && reaches(self.second) {
            self.second = Some(place);
        }
    }
}

fn overlaps<'a>(story: &Story<'a>, found: &mut Complaints<'a>) {
    let windows = &story.windows;
    let mut furthest = Furthest::default();
    for (place, window) in windows.iter().enumerate() {
        if window.from >= window.until {
            continue;
        }
        if let Some(rival) = furthest.rival(windows, window)
            && windows[rival].until > window.from
        {
            let rival = &windows[rival];
            let end = rival.until.min(window.until);
            let mut lines: Vec<usize> = rival.shown_by().chain(window.shown_by()).collect();
            // How long the second one believed later on shows nothing.
            lines.retain(|at| *at <= rival.kept.max(window.opened) || Some(*at) == rival.closed);
            found.push(Complaint {
                invariant: "I1",
                key: Some(story.key),
                lines,
                headline: format!(
                    "{} (token {}) and {} (token {}) believe in it at once",
                    rival.worker, rival.token, window.worker, window.token
                ),
                mark: Some((window.from, end, "both believe".to_owned())),
            });
        }
        furthest.add(windows, place);
    }
}

/// A tenure is ended when all that was promised has run out, or its holder closed its window first.
fn ended<'a>(book: &Book<'a>, story: &Story<'a>, found: &mut Complaints<'a>) {
    for window in story.windows.iter().filter(|window| window.from < window.until) {
        let Some(ends) = story.ends.get(&window.token) else { continue };
        for &end in ends {
            let at = story.line(end);
            let then = book.t(at);
            if then >= window.until {
                continue;
            }
            if then >= window.from && window.opened < at {
                report(story, window, end, Some((then, window.until)), found);
                break;
            }
            // It began after an end: then the tenure was revived in between.
            let revived = story.grants.get(&window.token).is_some_and(|grants| {
                grants.iter().any(|&grant| grant > end && story.line(grant) < window.opened)
            });
            if !revived {
                report(story, window, end, None, found);
                break;
            }
        }
    }
}

fn report<'a>(
    story: &Story<'a>,
    window: &Window<'a>,
    end: usize,
    mark: Option<(u64, u64)>,
    found: &mut Complaints<'a>,
) {
    let commit = &story.commits[end];
    let how = if mark.is_some() { "while" } else { "and later" };
    let mut lines: Vec<usize> = vec![window.opened, commit.at];
    lines.extend((window.kept < commit.at).then_some(window.kept));
    found.push(Complaint {
        invariant: "I1",
        key: Some(story.key),
        lines,
        headline: format!(
            "the store has token {} as {}, {how} {} believes in it",
            window.token, commit.kind, window.worker
        ),
        mark: mark.map(|(from, until)| (from, until, format!("{} believes on", window.worker))),
    });
}
