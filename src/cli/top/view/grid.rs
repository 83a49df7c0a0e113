//! Rows under headings.

use ratatui::style::Style;

use super::{
    fit::{Cut, fit},
    theme::{Painted, Theme},
};

/// What stands between two columns.
const GAP: &str = "  ";

/// How wide a column is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Width {
    Fixed(usize),
    /// Its part of what the others leave.
    Share(usize),
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) width: Width,
    pub(super) cut: Cut,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) style: Style,
}

/// A column of this width.
pub(super) const fn fixed(heading: &'static str, width: usize) -> Column {
    Column { heading, width: Width::Fixed(width), cut: Cut::End }
}

/// A column of numbers: their last digits count most.
pub(super) const fn numbers(heading: &'static str, width: usize) -> Column {
    Column { heading, width: Width::Fixed(width), cut: Cut::Middle }
}

/// A column of names that takes its part of the rest.
pub(super) const fn names(heading: &'static str, share: usize) -> Column {
    Column { heading, width: Width::Share(share), cut: Cut::Middle }
}

/// A column of text that takes its part of the rest.
pub(super) const fn words(heading: &'static str, share: usize) -> Column {
    Column { heading, width: Width::Share(share), cut: Cut::End }
}

/// The headings, and the page of rows on which the chosen one is, in `room` lines at most.
pub(super) fn table(
    columns: &[Column],
    rows: &[Row],
    chosen: usize,
    (width, room): (usize, usize),
    theme: Theme,
) -> Vec<Painted> {
    let widths = widths(columns, width.saturating_sub(2));
    let headings: Vec<String> = columns.iter().map(|column| column.heading.to_owned()).collect();
    let mut lines = vec![Painted::new(line("  ", columns, &widths, &headings), theme.strong())];
    let page = room.saturating_sub(1);
    let first = chosen.checked_div(page).unwrap_or(0) * page;
    for (at, row) in rows.iter().enumerate().skip(first).take(page) {
        let (mark, style) = if at == chosen {
            ("> ", row.style.patch(theme.reversed()))
        } else {
            ("  ", row.style)
        };
        lines.push(Painted::new(line(mark, columns, &widths, &row.cells), style));
    }
    lines.truncate(room);
    lines
}

/// Rows alone, that nobody chooses from.
pub(super) fn list(columns: &[Column], rows: &[Row], width: usize) -> Vec<Painted> {
    let widths = widths(columns, width);
    let painted = |row: &Row| Painted::new(line("", columns, &widths, &row.cells), row.style);
    rows.iter().map(painted).collect()
}

fn line(mark: &str, columns: &[Column], widths: &[usize], cells: &[String]) -> String {
    let cells = columns.iter().zip(widths).zip(cells);
    let cells = cells.map(|((column, &width), cell)| fit(cell, width, column.cut));
    format!("{mark}{}", cells.collect::<Vec<_>>().join(GAP))
}

/// How wide each column is. The last share takes what the division leaves.
fn widths(columns: &[Column], width: usize) -> Vec<usize> {
    let gaps = GAP.len() * columns.len().saturating_sub(1);
    let of = |column: &Column| match column.width {
        Width::Fixed(width) => (width, 0),
        Width::Share(share) => (0, share),
    };
    let taken: usize = columns.iter().map(|column| of(column).0).sum();
    let mut rest = width.saturating_sub(gaps + taken);
    let mut shares: usize = columns.iter().map(|column| of(column).1).sum();
    let mut widths = Vec::with_capacity(columns.len());
    for column in columns {
        let (fixed, share) = of(column);
        let part = (rest * share).checked_div(shares).unwrap_or(0);
        rest -= part;
        shares -= share;
        widths.push(fixed + part);
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [names("KEY", 1), fixed("N", 3), words("WHY", 2)];

    fn rows(number: usize) -> Vec<Row> {
        let row = |n: usize| Row {
            cells: vec![format!("key-{n}"), n.to_string(), "because".to_owned()],
            style: Style::new(),
        };
        (0..number).map(row).collect()
    }

    #[test]
    fn the_columns_take_the_whole_width() {
        assert_eq!(widths(&COLUMNS, 37), [10, 3, 20]);
        assert_eq!(widths(&COLUMNS, 38), [10, 3, 21]);
        assert_eq!(widths(&COLUMNS, 3), [0, 3, 0]);
        assert_eq!(widths(&[fixed("N", 3)], 80), [3]);
    }

    #[test]
    fn the_chosen_row_is_always_on_the_page() {
        let theme = Theme::new(false);
        for (chosen, shown) in [(0, "> key-0"), (2, "> key-2"), (3, "> key-3"), (6, "> key-6")] {
            let lines = table(&COLUMNS, &rows(7), chosen, (37, 4), theme);
            let marked = lines.iter().filter(|line| line.text.starts_with(shown));
            assert_eq!((marked.count(), lines.len() <= 4), (1, true), "{chosen}: {lines:?}");
        }
        assert!(table(&COLUMNS, &rows(7), 0, (37, 0), theme).is_empty());
        assert_eq!(table(&COLUMNS, &rows(7), 5, (37, 1), theme).len(), 1, "the headings");
        assert_eq!(table(&COLUMNS, &rows(7), 0, (0, 9), theme).len(), 8, "no width at all");
    }
}
