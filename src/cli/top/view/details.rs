//! What was opened: leases of an owner or a pool, and the history of a key.

use super::{
    fit::{Cut, fit, wrap},
    grid::{Column, Row, fixed, names, numbers, table, words},
    tail,
    theme::{Painted, Theme},
};
use crate::{
    cli::{
        output::{dash, lease_rows, shown},
        top::{asking::Found, state::State},
        when::{self, brief},
    },
    client::{Event, History, LeaseView, Leases, PastTenure},
};

/// The most lines that tell of a lease before its history.
const LEASE: usize = 3;

const LEASES: [Column; 6] = [
    names("KEY", 5),
    fixed("STATE", 8),
    names("OWNER", 3),
    numbers("TOKEN", 8),
    fixed("HELD_FOR", 8),
    fixed("WAITERS", 7),
];
const TENURES: [Column; 6] = [
    numbers("TOKEN", 8),
    names("OWNER", 1),
    fixed("BEGAN", 19),
    fixed("HELD_FOR", 8),
    fixed("END", 13),
    words("REASON", 1),
];

/// Leases that are not free.
pub(super) fn leases(
    state: &State,
    found: &Found,
    theme: Theme,
    at: usize,
    room: (usize, usize),
) -> Vec<Painted> {
    let Found::Leases(Leases { leases, next, .. }) = found else { return Vec::new() };
    if leases.is_empty() {
        return vec![Painted::new("no leases: every key is free", theme.plain())];
    }
    let now_ms = state.status.as_ref().and_then(|status| when::wall_ms(&status.at));
    let rows: Vec<Row> = leases.iter().map(|lease| lease_row(lease, now_ms, theme)).collect();
    let (width, room) = room;
    let has_more = next.is_some();
    let mut lines =
        table(&LEASES, &rows, at, (width, room.saturating_sub(usize::from(has_more))), theme);
    if has_more {
        lines.push(Painted::new("there are more: tenure ls", theme.plain()));
    }
    lines
}

fn lease_row(lease: &LeaseView, now_ms: Option<u64>, theme: Theme) -> Row {
    let began = lease.acquired_at.as_deref().filter(|_| lease.state == "held");
    let began = began.and_then(when::wall_ms);
    let held = now_ms.zip(began).map(|(now, began)| now.saturating_sub(began) / 1000 * 1000);
    let number = |number: Option<u64>| number.map_or_else(dash, |number| number.to_string());
    let cells = vec![
        shown(&lease.key),
        shown(&lease.state),
        lease.owner.as_deref().map_or_else(dash, shown),
        number(lease.token),
        held.map_or_else(dash, brief),
        number(lease.waiters),
    ];
    Row { cells, style: theme.of_state(&lease.state) }
}

/// The lease now, its tenures, and its events, the latest first.
pub(super) fn history(
    found: &Found,
    theme: Theme,
    at: usize,
    (width, room): (usize, usize),
) -> Vec<Painted> {
    let Found::History(found) = found else { return Vec::new() };
    let mut lines = now(found, theme, width);
    let room = room.saturating_sub(lines.len());
    // Tenures take half of the room, or what the events leave of it.
    let events = (found.events.len() + 1).min(room / 2);
    let rows: Vec<Row> = found.tenures.iter().map(|tenure| tenure_row(tenure, theme)).collect();
    let most = room - events;
    let tenures = table(&TENURES, &rows, at, (width, most), theme);
    let left = room - tenures.len();
    lines.extend(tenures);
    let title = if found.complete { "events, all of them" } else { "events, the latest ones" };
    lines.push(Painted::new(fit(title, width, Cut::End), theme.reversed()));
    let events = found.events.iter().take(left.saturating_sub(1));
    lines.extend(events.map(|event| tail::line(&Event::of(event.clone()), theme)));
    lines
}

/// `state held  owner w2  token 8 …`.
fn now(found: &History, theme: Theme, width: usize) -> Vec<Painted> {
    let rows = lease_rows(&found.lease);
    let rows = rows.iter().filter(|(name, _)| name != "key");
    let words: Vec<String> = rows.map(|(name, value)| format!("{name}={value}")).collect();
    let style = theme.of_state(&found.lease.state);
    wrap(&words.join(" "), width)
        .into_iter()
        .take(LEASE)
        .map(|line| Painted::new(line, style))
        .collect()
}

fn tenure_row(tenure: &PastTenure, theme: Theme) -> Row {
    let text = |text: &Option<String>| text.as_deref().map_or_else(dash, shown);
    let began = text(&tenure.began).replace('T', " ");
    let began = began.split_once('.').map_or(&*began, |(seconds, _)| seconds).to_owned();
    let cells = vec![
        tenure.token.to_string(),
        shown(&tenure.owner),
        began,
        tenure.held_ms.map_or_else(dash, brief),
        text(&tenure.end),
        text(&tenure.reason),
    ];
    let style = tenure.end.as_deref().map_or_else(|| theme.good(), |end| theme.of_event(end));
    Row { cells, style }
}
