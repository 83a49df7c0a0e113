//! `permits`: a key is granted only as the number of permits that is in force names it, and a caller that was given all
//! permits has as many as there are. What was granted before a change stays.

use super::{Complaints, Event, book::Book, story::Story};

/// The number of permits that a node grants by, from a moment on.
#[derive(Clone, Copy)]
struct InForce<'a> {
    at: usize,
    node: &'a str,
    prefix: &'a str,
    permits: u32,
}

/// What nodes said of the permits of keys, in order of time.
pub(super) struct Numbers<'a>(Vec<InForce<'a>>);

impl<'a> Numbers<'a> {
    pub fn of(book: &Book<'a>) -> Self {
        let of_line = |(at, line): (usize, &&'a super::Line)| match &line.event {
            Event::InForce { node, prefix, permits } => {
                Some(InForce { at, node, prefix, permits: *permits })
            }
            _ => None,
        };
        Self(book.lines.iter().enumerate().filter_map(of_line).collect())
    }

    /// The numbers for a key that were in force at this node, or at any, at this moment: with the one before a change at
    /// that very moment.
    fn at<'b>(
        &'b self,
        book: &'b Book<'a>,
        key: &'b str,
        node: Option<&'b str>,
        t: u64,
    ) -> impl Iterator<Item = u32> + 'b {
        let of_key = move |one: &&InForce<'a>| {
            key.starts_with(one.prefix) && node.is_none_or(|node| one.node == node)
        };
        let stands = move |one: &&InForce<'a>| {
            let mut later = self.0.iter().filter(|later| {
                later.at > one.at && later.node == one.node && later.prefix == one.prefix
            });
            book.t(one.at) <= t && later.next().is_none_or(|later| book.t(later.at) >= t)
        };
        self.0.iter().filter(of_key).filter(stands).map(|one| one.permits)
    }
}

/// Whether a key is a lease under a policy with this many permits. Where keys have none, a permit from before is a key of
/// its own: it is not granted to a caller that waited for the permit, but its own tenure may go on (`revived`).
fn is_lease(key: &str, permits: u32, revived: bool) -> bool {
    match key.rsplit_once('#') {
        Some(_) if permits == 1 => revived,
        Some((_, number)) => {
            number.parse().is_ok_and(|number: u32| (1..=permits).contains(&number))
        }
        None => permits == 1,
    }
}

pub(super) fn check<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    numbers: &Numbers<'a>,
    found: &mut Complaints<'a>,
) {
    if numbers.0.is_empty() {
        return;
    }
    let mut last = None;
    for &at in story.lines {
        match book.event(at) {
            // The grant was decided when it was first sent.
            Event::Committed { kind, token, sent: Some(sent), .. } if kind == "granted" => {
                let revived = last.replace(token) == Some(token);
                let is_lease = |permits| is_lease(story.key, permits, revived);
                let mut there = numbers.at(book, story.key, None, *sent).peekable();
                if there.peek().is_some() && !there.any(is_lease) {
                    let headline = "it is granted, and is no lease by any number of permits that \
                                    is in force then";
                    found.say("permits", Some(story.key), &[at], headline.to_owned());
                }
            }
            Event::All { node, leases, .. } => {
                let mut there = numbers.at(book, story.key, Some(node), book.t(at)).peekable();
                if there.peek().is_some() && !there.any(|permits| permits == *leases) {
                    let headline = format!("{node} gives all permits, and those are not {leases}");
                    found.say("permits", Some(story.key), &[at], headline);
                }
            }
            _ => {}
        }
    }
}
