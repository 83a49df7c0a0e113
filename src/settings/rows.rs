//! Lists of tables such as `[[plugin]]`: every key is judged by itself, and no value is quoted.

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
pub(super) const LISTS: [&str; 1] = ["plugin"];

/// One table of a list, as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) list: String,
    path: Arc<PathBuf>,
    line: usize,
    cells: Vec<(String, usize, Value)>,
}

impl Row {
    /// The tables of `[[list]]`; `None` where the value is no list of tables.
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

/// Takes a table apart and gathers what is wrong with it.
pub(super) struct Reader<'a> {
    row: Row,
    known: Vec<&'static str>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(row: Row, faults: &'a mut Vec<Fault>) -> Self {
        Self { row, known: Vec::new(), faults }
    }

    /// Something is wrong with a key, at its line, or at the table's where it is not there.
    pub(super) fn fault(&mut self, key: &str, problem: impl Into<String>) {
        let line = self.row.cells.iter().find(|(name, ..)| name == key);
        let line = line.map_or(self.row.line, |(_, line, _)| *line);
        let origin = Origin::File { path: self.row.path.clone(), line: Some(line) };
        let key = Some(format!("{}.{key}", self.row.list));
        self.faults.push(Fault { origin, key, problem: problem.into() });
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.peek(key).is_some()
    }

    pub(super) fn peek(&self, key: &str) -> Option<&Value> {
        self.row.cells.iter().find(|(name, ..)| name == key).map(|(_, _, value)| value)
    }

    /// A key that may be left out; `None` where it is, or is wrong.
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

    /// A key that must be there.
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

    /// Text that may be left out.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.optional(key, "text in quotes", text)
    }

    /// A secret that may be left out; empty where it is.
    pub(super) fn secret(&mut self, key: &'static str) -> Secret {
        self.text(key).map(Secret::new).unwrap_or_default()
    }

    /// A path that may be left out; empty where it is.
    pub(super) fn path(&mut self, key: &'static str) -> PathBuf {
        self.text(key).map(|text| Path::new(&text).to_owned()).unwrap_or_default()
    }

    /// A key that nobody asked for is a fault.
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

pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(text).collect()
}

pub(super) fn span(value: &Value) -> Option<Duration> {
    parse_duration(value.as_str()?).ok()
}
