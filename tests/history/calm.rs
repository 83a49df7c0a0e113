//! I8: once faults stop, every call is answered within its bound, and no key is stuck.

use super::{Complaint, Complaints, Event, Limits, Op, book::Book, book::key_of, story::Story};

/// Calls that somebody counts on. An answer that was lost is one where a fault may have done it: not for a call
/// that was asked when all faults were long over. Returns how many were judged.
pub(super) fn check_calls<'a>(book: &Book<'a>, limits: &Limits, found: &mut Complaints<'a>) -> u64 {
    let Some(calm) = book.calm else { return 0 };
    let settled = book.t(calm).saturating_add(limits.calls_after_calm);
    let mut judged = 0;
    for (at, line) in book.lines.iter().enumerate() {
        let Event::Asked { call, worker, op, key, answer_by: Some(by) } = &line.event else {
            continue;
        };
        let by = settled.max(*by);
        if by > book.over() {
            continue;
        }
        let answer = book.answered.get(call).copied().filter(|answer| *answer > at);
        let lost = answer.is_some_and(|at| matches!(book.event(at), Event::Lost { .. }));
        if lost && line.t <= settled {
            continue;
        }
        judged += 1;
        let complaint = match answer {
            None => "was never answered",
            Some(_) if lost => "lost its answer, and there was no fault",
            Some(answer) if book.t(answer) > by => "was answered too late",
            Some(_) => continue,
        };
        found.push(Complaint {
            invariant: "I8",
            key: Some(key).filter(|key| !key.is_empty()).map(String::as_str),
            lines: [at].into_iter().chain(answer).collect(),
            headline: format!("call {call} ({op:?} by {worker}) {complaint}"),
            mark: Some((by, by, "due by here".to_owned())),
        });
    }
    judged
}

/// A key is stuck if, for as long as everybody was to be served again, nobody had it and all who asked for it
/// were refused.
pub(super) fn check_key<'a>(
    book: &Book<'a>,
    story: &Story<'a>,
    limits: &Limits,
    found: &mut Complaints<'a>,
) {
    let Some(calm) = book.calm else { return };
    let settled = book.t(calm).saturating_add(limits.after_calm);
    let shut = story.commits.iter().rev().find_map(|commit| match commit.kind {
        "pinned" | "fence-failed" => Some(true),
        "unpinned" | "fence-skipped" | "fenced" => Some(false),
        _ => None,
    });
    let had =
        story.windows.iter().any(|window| window.until > settled && window.from < window.until)
            || story.commits.iter().any(|commit| commit.grants() && book.t(commit.at) > settled);
    if had || shut == Some(true) {
        return;
    }
    let refused = |&at: &usize| {
        let Event::Asked { call, op: Op::Acquire, .. } = book.event(at) else { return None };
        let answer = *book.answered.get(call)?;
        let no = matches!(book.event(answer), Event::Refused { .. });
        (book.t(at) > settled && no).then_some((at, answer))
    };
    let refused: Vec<(usize, usize)> = story.lines.iter().filter_map(refused).collect();
    let (Some(&(first, _)), Some(&(_, last))) = (refused.first(), refused.last()) else { return };
    let (from, to) = (book.t(first), book.t(last));
    if to.saturating_sub(from) < limits.after_calm {
        return;
    }
    found.push(Complaint {
        invariant: "I8",
        key: Some(story.key),
        lines: vec![first, last],
        headline: format!("{} asked for it and were refused, and nobody has it", refused.len()),
        mark: Some((from, to, "the key is stuck".to_owned())),
    });
}
