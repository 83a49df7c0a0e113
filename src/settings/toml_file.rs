//! Reads a settings file, with the line of each value.

use std::{path::Path, sync::Arc};

use config::{Value, ValueKind};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    fault::{Fault, Origin},
    layers::{Layers, Leaf},
    listed::{Cell, LISTS, ListedTable},
    toml_text::TomlText,
};

pub(super) fn read(path: &Path, layers: &mut Layers) {
    match std::fs::read_to_string(path) {
        Ok(content) => read_text(path, &content, layers),
        Err(error) => {
            let origin = Origin::File { path: Arc::new(path.to_owned()), line: None };
            let problem = format!("cannot be read: {error}");
            layers.faults.push(Fault { origin, key: None, problem });
        }
    }
}

/// Reads the content of a file.
pub(super) fn read_text(path: &Path, content: &str, layers: &mut Layers) {
    let text = TomlText::new(path, content);
    let line_of = |offset: usize| text.line(offset);
    let table = text.parse(&mut layers.faults);
    let Layers { leaves, tables, faults } = layers;
    flatten("", &table, &mut |path, offset, value| {
        if LISTS.contains(&path.as_str())
            && let Some(found) = cells_of_list(value, &line_of)
        {
            let listed = |(line, cells)| {
                let (list, path) = (path.clone(), Arc::clone(text.path()));
                ListedTable { list, path, line, cells }
            };
            return tables.extend(found.into_iter().map(listed));
        }
        if has_date(value) {
            let problem = "is a date, and no setting is one: write text in quotes".to_owned();
            return faults.push(Fault { origin: text.at(offset), key: Some(path), problem });
        }
        let value = plain(value, ValueKind::String);
        leaves.push(Leaf { path, value, origin: text.at(offset) });
    });
}

/// The lines and cells of the tables in a list; `None` if the value is not a list of tables.
fn cells_of_list(
    value: &Spanned<DeValue<'_>>,
    line_of: &impl Fn(usize) -> usize,
) -> Option<Vec<(usize, Vec<Cell>)>> {
    let DeValue::Array(items) = value.get_ref() else { return None };
    let table = |item: &Spanned<DeValue<'_>>| {
        let DeValue::Table(table) = item.get_ref() else { return None };
        Some((line_of(item.span().start), cells(table, line_of)))
    };
    items.iter().map(table).collect()
}

fn cells(table: &DeTable<'_>, line_of: &impl Fn(usize) -> usize) -> Vec<Cell> {
    let cells = table.iter().map(|(key, value)| Cell {
        key: key.get_ref().to_string(),
        line: line_of(key.span().start),
        value: plain(value, |_| ValueKind::Nil),
    });
    cells.collect()
}

/// Visits the values of a table with their paths and the offsets of their keys. An empty table is visited as a value,
/// so that an unknown section is noticed.
fn flatten(
    prefix: &str,
    table: &DeTable<'_>,
    visit: &mut impl FnMut(String, usize, &Spanned<DeValue<'_>>),
) {
    for (key, value) in table {
        let path = join(prefix, key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) if inner.iter().next().is_some() => flatten(&path, inner, visit),
            _ => visit(path, key.span().start, value),
        }
    }
}

/// Whether a value is a date, or a list with one.
fn has_date(value: &Spanned<DeValue<'_>>) -> bool {
    match value.get_ref() {
        DeValue::Datetime(_) => true,
        DeValue::Array(items) => items.iter().any(has_date),
        _ => false,
    }
}

/// Joins two parts of a path. A part that contains a dot is quoted, so that it stays one part.
fn join(prefix: &str, part: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part =
        if part.is_empty() || !part.chars().all(bare) { format!("{part:?}") } else { part.into() };
    if prefix.is_empty() { part } else { format!("{prefix}.{part}") }
}

/// Converts a value. `other` converts what no setting is: a date, or a number that does not fit.
fn plain(value: &Spanned<DeValue<'_>>, other: fn(String) -> ValueKind) -> Value {
    let kind = match value.get_ref() {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| other(number.to_string()), ValueKind::I64),
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .map_or_else(|_| other(number.to_string()), ValueKind::Float),
        DeValue::Boolean(flag) => ValueKind::Boolean(*flag),
        DeValue::Datetime(instant) => other(instant.to_string()),
        DeValue::Array(items) => {
            ValueKind::Array(items.iter().map(|item| plain(item, other)).collect())
        }
        DeValue::Table(table) => {
            let fields =
                table.iter().map(|(key, value)| (key.get_ref().to_string(), plain(value, other)));
            ValueKind::Table(fields.collect())
        }
    };
    Value::new(None, kind)
}
