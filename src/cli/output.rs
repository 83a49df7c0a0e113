//! Writes results to stdout, in the output format that the user chose.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Exit, Failure};
use crate::{client::LeaseView, settings::format_duration};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, for people.
    Table,
    /// One indented JSON document; streams are written as `jsonl`.
    Json,
    /// One JSON object per line.
    Jsonl,
}

/// Writes results to stdout, in the format that the user chose.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The format in which results and errors are written.
    pub format: Format,
    /// Whether stdout is a terminal and the user did not ask for plain text.
    styled: bool,
}

impl Output {
    /// Output for this process: styled on a terminal, unless `NO_COLOR` is set and not empty.
    #[must_use]
    pub fn new(format: Format) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { format, styled: !plain && io::stdout().is_terminal() }
    }

    /// Writes one result: as rows of name and value for people, or as JSON.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn record(&self, value: &impl Serialize, rows: &[(String, String)]) -> io::Result<()> {
        match self.format {
            Format::Table => self.text(&pairs(rows)),
            Format::Json | Format::Jsonl => self.json(value),
        }
    }

    /// Writes several results of a kind: as a table with a heading, as the JSON document `whole`, or as one line of
    /// JSON for each of `items`.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn list<T: Serialize>(
        &self,
        whole: &impl Serialize,
        items: &[T],
        heading: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> io::Result<()> {
        match self.format {
            Format::Table => {
                let rows: Vec<Vec<String>> = items.iter().map(row).collect();
                self.text(&table(heading, &rows, self.styled))
            }
            Format::Json => self.json(whole),
            Format::Jsonl => items.iter().try_for_each(|item| self.json(item)),
        }
    }

    /// Writes JSON, on one line for `jsonl`.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut text = match self.format {
            Format::Json => serde_json::to_string_pretty(value),
            Format::Table | Format::Jsonl => serde_json::to_string(value),
        }?;
        text.push('\n');
        self.text(&text)
    }

    /// Writes a failure to stderr as one line of JSON: the server's problem document, or a document of that shape.
    pub(super) fn problem(self, failure: &Failure, exit: Exit) {
        let problem = match failure {
            Failure::Client(error) => error.problem().and_then(|p| serde_json::to_value(p).ok()),
            _ => None,
        };
        match problem {
            // A closed stderr is not an error.
            Some(problem) => drop(writeln!(io::stderr().lock(), "{problem}")),
            None => self.refusal(&failure.to_string(), exit),
        }
    }

    /// Writes a failure that no server reported to stderr, in the shape of a problem document.
    pub(super) fn refusal(self, detail: &str, exit: Exit) {
        let problem =
            json!({ "title": exit.meaning(), "detail": detail, "exit_code": exit.code() });
        let _ = writeln!(io::stderr().lock(), "{problem}");
    }

    /// Writes text as it is, and flushes: a reader of a stream gets each line at once.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn text(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Writes a message for people to stderr. A closed stderr is not an error.
pub(super) fn talk(text: &str) {
    let _ = writeln!(io::stderr().lock(), "tenure: {text}");
}

/// Name and value, one pair per line, with aligned values.
pub(super) fn pairs(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Rows under a heading, with aligned columns and no trailing blanks.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>], styled: bool) -> String {
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[&str]| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head = line(heading);
    let mut text = if styled { format!("\u{1b}[1m{head}\u{1b}[0m\n") } else { format!("{head}\n") };
    for row in rows {
        text.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
        text.push('\n');
    }
    text
}

/// Milliseconds as a duration for people; `-` for none.
pub(super) fn span(ms: Option<u64>) -> String {
    ms.map_or_else(dash, |ms| format_duration(Duration::from_millis(ms)))
}

/// The placeholder for an absent value.
pub(super) fn dash() -> String {
    "-".to_owned()
}

/// A value on one line. Control characters are escaped, so that a record cannot draw on the terminal. Characters that
/// hide or reorder others are escaped too, so that no name looks like another.
pub(super) fn shown(text: &str) -> String {
    let escaped = |c: char| c.is_control() || misleads(c);
    text.chars()
        .flat_map(|c| if escaped(c) { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// Whether a character has no width, breaks a line, or changes the text direction. `assets/status.js` has the same
/// list.
fn misleads(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A JSON value on one line. Text is printed without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), shown)
}

/// The rows of a lease.
pub(super) fn lease_rows(lease: &LeaseView) -> Vec<(String, String)> {
    let mut rows =
        vec![("key".to_owned(), shown(&lease.key)), ("state".to_owned(), shown(&lease.state))];
    let mut add = |name: &str, value: Option<String>| {
        rows.extend(value.map(|value| (name.to_owned(), shown(&value))));
    };
    add("owner", lease.owner.clone());
    add("token", lease.token.map(|token| token.to_string()));
    add("ttl", lease.ttl_ms.map(|ms| span(Some(ms))));
    add("expires_in", lease.expires_in_ms.map(|ms| span(Some(ms))));
    add("acquired_at", lease.acquired_at.clone());
    add("value", lease.value.clone());
    add("waiters", lease.waiters.filter(|&count| count > 0).map(|count| count.to_string()));
    for (name, value) in &lease.other {
        let said = match value {
            Value::Null | Value::Bool(false) => None,
            Value::Array(items) if items.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        add(name, said);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_and_ends_no_line_in_blanks() {
        let rows = [["jobs/ü", "held"], ["x", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&["KEY", "STATE"], &rows, false), "KEY     STATE\njobs/ü  held\nx\n");
        assert!(table(&["KEY"], &[], true).starts_with("\u{1b}[1mKEY"));
    }

    #[test]
    fn a_record_cannot_draw_on_the_terminal() {
        let lease = LeaseView {
            key: "k".into(),
            state: "held".into(),
            value: Some("a\u{1b}[2J\nb".into()),
            ..LeaseView::default()
        };
        let text = pairs(&lease_rows(&lease));
        assert_eq!(text, "key    k\nstate  held\nvalue  a\\u{1b}[2J\\nb\n");
    }

    #[test]
    fn no_name_looks_like_another() {
        for (name, told) in [
            ("admin\u{202e}toor", "admin\\u{202e}toor"),
            ("ad\u{200b}min", "ad\\u{200b}min"),
            ("a\u{2028}b", "a\\u{2028}b"),
            ("jobs/ü/日本", "jobs/ü/日本"),
        ] {
            assert_eq!(shown(name), told);
        }
    }
}
