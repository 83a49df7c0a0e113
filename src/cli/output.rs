//! Writes results to stdout, in the output format that the user chose.

use std::{
    io::{self, Write},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    colour::{self, Color},
    exit::{Exit, Failure},
    format::Format,
};
use crate::{
    client::LeaseView,
    clock::{Clock as _, SystemClock, rfc3339},
    lease::is_hidden,
    settings::format_duration,
    telemetry::escaped_json,
};

/// Writes results to stdout, in the format that the user chose.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The format in which results and errors are written.
    pub format: Format,
    /// Whether the text for people has colours.
    pub(super) styled: bool,
}

impl Output {
    /// Output for this process.
    #[must_use]
    pub fn new(format: Format, color: Color) -> Self {
        Self { format, styled: color.is_on() }
    }

    /// Writes one result: as rows of name and value for people, as JSON, or one field of it.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn record(&self, value: &impl Serialize, rows: &[(String, String)]) -> io::Result<()> {
        match self.format.field() {
            Some(field) => self.text(&field_of(value, field)?),
            None if self.format.is_json() => self.json(value),
            None => self.text(&pairs(rows, self.styled)),
        }
    }

    /// Writes several results of a kind: as a table with a heading, as the JSON document `whole`, as one line of JSON
    /// for each of `items`, or one field of each. `what` says what there is none of.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn list<T: Serialize>(
        &self,
        what: &str,
        whole: &impl Serialize,
        items: &[T],
        heading: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> io::Result<()> {
        if let Some(field) = self.format.field() {
            return items.iter().try_for_each(|item| self.text(&field_of(item, field)?));
        }
        match self.format {
            Format::Json => self.json(whole),
            Format::Jsonl => items.iter().try_for_each(|item| self.json(item)),
            _ if items.is_empty() => {
                talk(&format!("no {what}"));
                Ok(())
            }
            _ => {
                let rows: Vec<Vec<String>> = items.iter().map(row).collect();
                self.text(&table(heading, &rows, self.styled))
            }
        }
    }

    /// Writes JSON, on one line for `jsonl`.
    ///
    /// # Errors
    /// When stdout cannot be written to.
    pub fn json(&self, value: &impl Serialize) -> io::Result<()> {
        let mut text = match self.format {
            Format::Json => serde_json::to_string_pretty(value),
            _ => serde_json::to_string(value),
        }?;
        text.push('\n');
        self.text(&escaped_json(&text))
    }

    /// Writes a failure to stderr as one line of JSON: the server's problem document, or a document of that shape.
    pub(super) fn problem(self, failure: &Failure, exit: Exit) {
        let problem = match failure {
            Failure::Client(error) => error.problem().and_then(|p| serde_json::to_value(p).ok()),
            _ => None,
        };
        match problem {
            // A closed stderr is not an error.
            Some(problem) => {
                let problem = problem.to_string();
                drop(writeln!(io::stderr().lock(), "{}", escaped_json(&problem)));
            }
            None => self.refusal(&failure.to_string(), exit),
        }
    }

    /// Writes a failure that no server reported to stderr, in the shape of a problem document.
    pub(super) fn refusal(self, detail: &str, exit: Exit) {
        let problem =
            json!({ "title": exit.meaning(), "detail": detail, "exit_code": exit.code() })
                .to_string();
        let _ = writeln!(io::stderr().lock(), "{}", escaped_json(&problem));
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
    let _ = writeln!(io::stderr().lock(), "tenure: {}", shown_lines(text));
}

/// Writes a message of a command that runs for long, with the time, to stderr.
pub(super) fn log(text: &str) {
    let now = rfc3339(SystemClock::new().wall_ms());
    let _ = writeln!(io::stderr().lock(), "{now} tenure: {}", shown_lines(text));
}

/// Writes what is wrong with the arguments, which it repeats, to stderr.
pub(super) fn refuse_arguments(text: &str) {
    let _ = write!(io::stderr().lock(), "{}", shown_lines(text));
}

/// One field of a result, on a line of its own.
fn field_of(value: &impl Serialize, field: &str) -> io::Result<String> {
    let value = serde_json::to_value(value)?;
    Ok(match value.get(field).filter(|value| !value.is_null()) {
        Some(value) => format!("{}\n", plain(value)),
        None => "-\n".to_owned(),
    })
}

/// Name and value, one pair per line, with aligned values.
pub(super) fn pairs(rows: &[(String, String)], styled: bool) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let shown = |name: &str, value: &str| {
        let value = shown(value);
        if styled { colour::cell(name, &value) } else { value }
    };
    rows.iter().map(|(name, value)| format!("{name:width$}  {}\n", shown(name, value))).collect()
}

/// Rows under a heading, with aligned columns and no trailing blanks.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>], styled: bool) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let mut widths: Vec<usize> = heading.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[&str], style: &dyn Fn(&str, &str) -> String| {
        let padded = cells.iter().zip(heading).zip(&widths).map(|((cell, column), &width)| {
            let shown = if styled { style(column, cell) } else { (*cell).to_owned() };
            let blanks = width.saturating_sub(cell.chars().count());
            format!("{shown}{:blanks$}", "")
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(heading, &|_, cell| colour::heading(cell));
    for row in &rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        text.push_str(&line(&cells, &colour::cell));
    }
    text
}

/// Milliseconds as a duration for people; `-` for none.
pub(super) fn span(ms: Option<u64>) -> String {
    ms.map_or_else(dash, |ms| format_duration(Duration::from_millis(ms)))
}

pub(super) fn yes(is: bool) -> String {
    if is { "yes".to_owned() } else { dash() }
}

/// The placeholder for an absent value.
pub(super) fn dash() -> String {
    "-".to_owned()
}

/// A value on one line. Control characters are escaped, so that a record cannot draw on the terminal. Other characters
/// that are not seen are escaped too, so that no name looks like another.
pub(super) fn shown(text: &str) -> String {
    escaped(text, is_hidden)
}

/// The same with the line breaks and tabs of the text.
pub(super) fn shown_lines(text: &str) -> String {
    escaped(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    escaped
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
    if let Some(permits) = lease.other.get("permits") {
        add("permits", Some(format!("{} of {} free", permits["free"], permits["count"])));
        for taken in permits["taken"].as_array().into_iter().flatten() {
            let owner = taken["owner"].as_str().or_else(|| taken["state"].as_str());
            let said = owner.map(|owner| format!("{owner}, token {}", taken["token"]));
            add(taken["key"].as_str().unwrap_or_default(), said);
        }
    }
    for (name, value) in lease.other.iter().filter(|(name, _)| *name != "permits") {
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
    fn the_permits_of_a_key_have_a_line_each() {
        let lease = serde_json::json!({ "key": "g", "state": "free", "permits": { "count": 2,
            "free": 1, "taken": [{ "key": "g#2", "owner": "w", "state": "held", "token": 7 }] } });
        let rows = lease_rows(&serde_json::from_value(lease).expect("a lease"));
        let row = |name: &str, said: &str| (name.to_owned(), said.to_owned());
        assert_eq!(rows[2..], [row("permits", "1 of 2 free"), row("g#2", "w, token 7")]);
    }

    #[test]
    fn colours_do_not_move_a_column() {
        let rows =
            [["a", "held", "w"], ["b", "free", ""]].map(|row| row.map(str::to_owned).to_vec());
        let styled = table(&["KEY", "STATE", "OWNER"], &rows, true);
        let plain = table(&["KEY", "STATE", "OWNER"], &rows, false);
        let mut without = styled.replace("\u{1b}[0m", "");
        for style in ["1", "2", "32"] {
            without = without.replace(&format!("\u{1b}[{style}m"), "");
        }
        // What is left of a colour at the end of a line stands behind blanks.
        let trimmed: String =
            without.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(trimmed, plain);
        assert!(styled.contains("\u{1b}[32mheld\u{1b}[0m"), "{styled}");
    }

    #[test]
    fn one_field_is_printed_alone() {
        let lease = json!({ "key": "a\nb", "token": 7, "lease_id": null });
        let fields =
            ["key", "token", "lease_id", "other"].map(|field| field_of(&lease, field).unwrap());
        assert_eq!(fields, ["a\\nb\n", "7\n", "-\n", "-\n"]);
    }

    #[test]
    fn a_record_cannot_draw_on_the_terminal() {
        let lease = LeaseView {
            key: "k".into(),
            state: "held".into(),
            value: Some("a\u{1b}[2J\nb".into()),
            ..LeaseView::default()
        };
        let text = pairs(&lease_rows(&lease), false);
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
