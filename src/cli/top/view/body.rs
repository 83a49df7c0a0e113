//! The pages: what changed most, what needs a person, events, and what was opened.

use super::{
    details,
    fit::{Cut, fit, wrap},
    grid::{Column, Row, fixed, names, table, words},
    head, tail,
    theme::{Painted, Theme},
};
use crate::{
    cli::{
        figures::{bounds, causes},
        output::{dash, shown},
        top::{
            choice::By,
            state::{Kind, Shown, State},
        },
    },
    client::{Top, TopRow},
};

/// From which room on the latest events stand below what changed most, and in how many lines with their bar.
const TAILS: [(usize, usize); 2] = [(15, 6), (10, 3)];

/// The lines of the visible page, `room` at most.
pub(super) fn lines(state: &State, theme: Theme, width: usize, room: usize) -> Vec<Painted> {
    let at = state.page().at;
    let below = (width, room.saturating_sub(1));
    let (title, mut rest) = match &state.page().kind {
        Kind::Top => return top(state, theme, (width, room)),
        Kind::Events => {
            let mut lines = vec![tail::bar(state, theme, width)];
            lines.extend(tail::latest(state, theme, below.1));
            return lines;
        }
        Kind::Attention => ("what needs a person".to_owned(), attention(state, theme, below)),
        Kind::OfOwner(owner) => (
            format!("leases of the owner {}", shown(owner)),
            of(&state.detail, theme, |found| details::leases(state, found, theme, at, below)),
        ),
        Kind::OfPool(pool) => (
            format!("leases of the pool {}", shown(pool)),
            of(&state.detail, theme, |found| details::leases(state, found, theme, at, below)),
        ),
        Kind::History(key) => (
            format!("history of {}", shown(key)),
            of(&state.detail, theme, |found| details::history(found, theme, at, below)),
        ),
    };
    rest.insert(0, bar(&title, theme, width));
    rest
}

fn bar(text: &str, theme: Theme, width: usize) -> Painted {
    Painted::new(fit(text, width, Cut::End), theme.reversed())
}

/// What is known, or why it is not.
fn of<T>(shown: &Shown<T>, theme: Theme, known: impl FnOnce(&T) -> Vec<Painted>) -> Vec<Painted> {
    match shown {
        Shown::Awaited => vec![Painted::new("asking…", theme.plain())],
        Shown::Refused(problem) => vec![Painted::new(problem.as_str(), theme.bad())],
        Shown::Known(found) => known(found),
    }
}

fn top(state: &State, theme: Theme, (width, room): (usize, usize)) -> Vec<Painted> {
    let tail = TAILS.iter().find(|(from, _)| room >= *from).map_or(0, |(_, lines)| *lines);
    let room = room - tail;
    let mut lines = vec![bar(&top_title(state), theme, width)];
    let below = (width, room.saturating_sub(1));
    lines.extend(of(&state.top, theme, |found| ranking(state, found, theme, below)));
    if tail > 0 {
        lines.resize(room, Painted::new("", theme.plain()));
        lines.push(tail::bar(state, theme, width));
        lines.extend(tail::latest(state, theme, tail - 1));
    }
    lines
}

/// `keys  window 10m  cause: all  by changes  others: 3 at most`.
fn top_title(state: &State) -> String {
    let choice = &state.choice;
    let mut parts = vec![
        choice.by.name().to_owned(),
        format!("window {}", choice.window.name()),
        format!("cause: {}", choice.cause.as_deref().unwrap_or("all")),
        format!("by {}{}", choice.sort.name(), if choice.is_reversed { ", reversed" } else { "" }),
    ];
    if let Some(prefix) = choice.prefix.as_ref().filter(|_| choice.by == By::Keys) {
        parts.push(format!("prefix {}", shown(prefix)));
    }
    if let Shown::Known(found) = &state.top {
        parts.push(format!("others: {} at most", found.others_at_most));
    }
    parts.join("  ")
}

fn ranking(state: &State, found: &Top, theme: Theme, room: (usize, usize)) -> Vec<Painted> {
    if found.rows.is_empty() {
        return vec![Painted::new("nothing changed in this window", theme.plain())];
    }
    let is_of_keys = state.choice.by == By::Keys;
    let mut columns: Vec<Column> =
        vec![names(state.choice.by.heading(), 5), fixed("CHANGES", 9), words("CAUSES", 6)];
    if is_of_keys {
        columns.insert(1, names("POOL", 2));
    }
    let rows: Vec<Row> =
        state.ranked().into_iter().map(|one| ranked(one, is_of_keys, theme)).collect();
    table(&columns, &rows, state.page().at, room, theme)
}

fn ranked(one: &TopRow, is_of_keys: bool, theme: Theme) -> Row {
    let mut cells = vec![shown(&one.name), bounds(one.at_least, one.at_most), causes(&one.changes)];
    if is_of_keys {
        cells.insert(1, one.pool.as_deref().map_or_else(dash, shown));
    }
    Row { cells, style: theme.plain() }
}

/// All entries, and below them what the chosen one means and what helps.
fn attention(state: &State, theme: Theme, (width, room): (usize, usize)) -> Vec<Painted> {
    let Some(status) = &state.status else { return Vec::new() };
    let at = state.page().at;
    let mut below = Vec::new();
    if let Some(entry) = status.attention.get(at) {
        below.push(Painted::new("", theme.plain()));
        let says = wrap(&shown(&entry.says), width);
        below.extend(says.into_iter().map(|line| Painted::new(line, theme.plain())));
        let help = entry.help.as_deref().map(|help| wrap(&format!("help: {}", shown(help)), width));
        below.extend(help.into_iter().flatten().map(|line| Painted::new(line, theme.strong())));
    }
    let rows: Vec<Row> = status.attention.iter().map(|entry| head::row(entry, theme)).collect();
    let room = room.saturating_sub(below.len());
    let mut lines = table(&head::COLUMNS, &rows, at, (width, room), theme);
    lines.extend(below);
    lines
}
