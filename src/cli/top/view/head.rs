//! The first lines: where the answers come from, what needs a person, and the counts.

use super::{
    grid::{Column, Row, fixed, list, names, words},
    theme::{Painted, Theme},
};
use crate::{
    cli::{
        attention::{lasts, subject, summary},
        figures::{causes, count},
        output::shown,
        top::state::{Kind, State},
        when::brief,
    },
    client::{Attention, Status},
};

/// How many entries the first lines show at most; on a low screen only one.
const ENTRIES: usize = 4;
const LOW: usize = 16;

/// The columns of what needs a person.
pub(super) const COLUMNS: [Column; 5] =
    [fixed("SEVERITY", 8), fixed("WHAT", 17), names("OF", 2), fixed("SINCE", 8), words("WHY", 3)];

/// The first lines of every page.
pub(super) fn lines(state: &State, theme: Theme, width: usize, height: usize) -> Vec<Painted> {
    let mut lines = vec![Painted::new(title(state), theme.strong())];
    if let Some(problem) = &state.problem {
        let every = brief_interval(state);
        let problem = format!("NO ANSWER, trying again every {every}: {problem}");
        lines.push(Painted::new(problem, theme.bad()));
    }
    if let Some(status) = &state.status {
        let most = if height < LOW { 1 } else { ENTRIES };
        // The page of them lists them itself.
        if state.page().kind != Kind::Attention {
            lines.extend(attention(status, theme, width, most));
        }
        lines.push(Painted::new(counts(status), theme.plain()));
    }
    lines
}

/// The row of an entry.
pub(super) fn row(entry: &Attention, theme: Theme) -> Row {
    let cells = vec![
        shown(&entry.severity).to_uppercase(),
        shown(&entry.kind),
        subject(entry),
        lasts(entry),
        shown(entry.reason.as_deref().unwrap_or(&entry.says)),
    ];
    Row { cells, style: theme.of_severity(&entry.severity) }
}

fn title(state: &State) -> String {
    let mut parts = vec!["tenure top".to_owned(), shown(&state.servers)];
    if let Some(status) = &state.status {
        let nodes = count(status.store.nodes.alive, "node", "nodes");
        let of_day = status.at.split_once('T').map_or(&*status.at, |(_, of_day)| of_day);
        let of_day = of_day.split_once('.').map_or(of_day, |(seconds, _)| seconds);
        parts.extend([
            format!("{}, {nodes}", shown(&status.store.kind)),
            format!("{} UTC", shown(of_day)),
        ]);
    }
    parts.push(format!("every {}", brief_interval(state)));
    parts.join("  ")
}

fn brief_interval(state: &State) -> String {
    brief(u64::try_from(state.interval.as_millis()).unwrap_or(u64::MAX))
}

/// The most severe entries. The last line says how many more there are.
fn attention(status: &Status, theme: Theme, width: usize, most: usize) -> Vec<Painted> {
    let entries = status.attention.len() as u64 + status.more;
    if entries == 0 {
        return vec![Painted::new(format!("ok: {}", summary(0)), theme.good())];
    }
    let fits = entries <= most as u64;
    let listed = if fits { most } else { most.saturating_sub(1) };
    let rows: Vec<Row> =
        status.attention.iter().take(listed).map(|entry| row(entry, theme)).collect();
    let mut lines = list(&COLUMNS, &rows, width);
    if !fits {
        let told = match listed {
            0 => format!("{}: {}", shown(&status.severity).to_uppercase(), summary(entries)),
            _ => format!("and {} more", entries - rows.len() as u64),
        };
        lines.push(Painted::new(
            format!("{told}; a lists them"),
            theme.of_severity(&status.severity),
        ));
    }
    lines
}

fn counts(status: &Status) -> String {
    let keys = status.store.keys.as_ref().map_or_else(
        || "keys are not counted yet".to_owned(),
        |keys| {
            format!(
                "held {}  offered {}  fencing {}  cooling {}  free {}",
                keys.held, keys.offered, keys.fencing, keys.cooling, keys.free
            )
        },
    );
    format!("{keys}  1m: {}", causes(&status.last_minute))
}
