//! Lists of tables, `[[policy]]` and `[[plugin]]`. Only a file can have them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Fault, Origin, Secret, parse_duration};

/// The lists that a file may have.
pub(super) const LISTS: [&str; 2] = ["policy", "plugin"];

/// One table of a list, as it is in the file.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) list: String,
    path: Arc<PathBuf>,
    line: usize,
    cells: Vec<(String, usize, Value)>,
}

impl Row {
    /// The tables of `[[list]]`; `None` if the value is not a list of tables.
    pub(super) fn all(
        list: &str,
        value: &Spanned<DeValue<'_>>,
        path: &Arc<PathBuf>,
        line_of: &impl Fn(usize) -> usize,
    ) -> Option<Vec<Self>> {
        let DeValue::Array(items) = value.get_ref() else { return None };
        let row = |item: &Spanned<DeValue<'_>>| {
            let DeValue::Table(table) = item.get_ref() else { return None };
            let line = line_of(item.span().start);
            Some(Self {
                list: list.to_owned(),
                path: path.clone(),
                line,
                cells: cells(table, line_of),
            })
        };
        items.iter().map(row).collect()
    }
}

impl Row {
    pub(super) fn cells(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.cells.iter().map(|(name, _, value)| (name.as_str(), value))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.cells.iter().any(|(name, ..)| name == key)
    }

    /// The place of a key, or of the table if it has no such key.
    pub(super) fn origin(&self, key: &str) -> Origin {
        let cell = self.cells.iter().find(|(name, ..)| name == key);
        let line = cell.map_or(self.line, |(_, line, _)| *line);
        Origin::File { path: self.path.clone(), line: Some(line) }
    }
}

/// The origins of the values in the tables of one list, by names such as `policy[0].prefix`.
pub(super) fn origins(rows: &[Row]) -> impl Iterator<Item = (String, Origin)> + '_ {
    rows.iter().enumerate().flat_map(|(at, row)| {
        row.cells().map(move |(name, _)| (format!("{}[{at}].{name}", row.list), row.origin(name)))
    })
}

fn cells(table: &DeTable<'_>, line_of: &impl Fn(usize) -> usize) -> Vec<(String, usize, Value)> {
    let cell = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key: &Spanned<std::borrow::Cow<'_, str>> = key;
        (key.get_ref().to_string(), line_of(key.span().start), plain(value))
    };
    table.iter().map(cell).collect()
}

fn plain(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(_) => Value::Null,
        DeValue::Array(items) => items.iter().map(plain).collect(),
        DeValue::Table(table) => {
            let field = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &_)| {
                (key.get_ref().to_string(), plain(value))
            };
            Value::Object(table.iter().map(field).collect())
        }
    }
}

/// Reads a table and collects its faults. No fault quotes a value, since it may be a secret.
pub(super) struct Reader<'a> {
    row: Row,
    known: Vec<&'static str>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(row: Row, faults: &'a mut Vec<Fault>) -> Self {
        Self { row, known: Vec::new(), faults }
    }

    /// Adds a fault of a key, at the key's line, or at the table's line if the key is missing.
    pub(super) fn fault(&mut self, key: &str, problem: impl Into<String>) {
        let origin = self.row.origin(key);
        let key = Some(format!("{}.{key}", self.row.list));
        self.faults.push(Fault { origin, key, problem: problem.into() });
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.peek(key).is_some()
    }

    pub(super) fn peek(&self, key: &str) -> Option<&Value> {
        self.row.cells.iter().find(|(name, ..)| name == key).map(|(_, _, value)| value)
    }

    /// An optional key; `None` if it is missing or wrong.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        expecting: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        self.known.push(key);
        let found = self.row.cells.iter().find(|(name, ..)| name == key);
        let value = read(&found?.2);
        if value.is_none() {
            self.fault(key, format!("must be {expecting}"));
        }
        value
    }

    /// A required key.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        expecting: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Option<T> {
        if !self.has(key) {
            self.fault(key, format!("is missing; it must be {expecting}"));
        }
        self.optional(key, expecting, read)
    }

    /// Optional text.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.optional(key, "text in quotes", text)
    }

    /// An optional secret; empty if it is missing.
    pub(super) fn secret(&mut self, key: &'static str) -> Secret {
        self.text(key).map(Secret::new).unwrap_or_default()
    }

    /// An optional path; empty if it is missing.
    pub(super) fn path(&mut self, key: &'static str) -> PathBuf {
        self.text(key).map(|text| Path::new(&text).to_owned()).unwrap_or_default()
    }

    /// Ends reading the table. A key that was not read is a fault.
    pub(super) fn finish(mut self, what: &str) {
        let names: Vec<String> = self.row.cells.iter().map(|(name, ..)| name.clone()).collect();
        let mut known = std::mem::take(&mut self.known);
        known.sort_unstable();
        for name in names.iter().filter(|name| !known.contains(&name.as_str())) {
            let list = self.row.list.clone();
            self.fault(name, format!("no such key; a {list} {what}has {}", known.join(", ")));
        }
    }
}

/// Converts a value into the form that other keys have.
pub(super) fn as_setting(value: &Value) -> config::Value {
    let kind = match value {
        Value::Null => config::ValueKind::Nil,
        Value::Bool(flag) => config::ValueKind::Boolean(*flag),
        Value::Number(number) => number.as_i64().map_or_else(
            || config::ValueKind::Float(number.as_f64().unwrap_or(f64::NAN)),
            config::ValueKind::I64,
        ),
        Value::String(text) => config::ValueKind::String(text.clone()),
        Value::Array(items) => config::ValueKind::Array(items.iter().map(as_setting).collect()),
        Value::Object(_) => config::ValueKind::Table(config::Map::new()),
    };
    config::Value::new(None, kind)
}

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

pub(super) fn span(value: &Value) -> Option<Duration> {
    parse_duration(value.as_str()?).ok()
}
