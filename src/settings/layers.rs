//! The layers: reads the file, the environment and the flags into leaves.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use config::{Environment, Source, Value, ValueKind};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Fault, Origin,
    rows::{self, Row},
    secret::SECRETS,
};

/// The prefix of environment variables that are settings.
const PREFIX: &str = "TENURE";
/// The separator between the parts of such a variable. A single `_` is part of a key.
const SEPARATOR: &str = "__";

/// The sources of settings, besides the built-in defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    environment: Option<HashMap<String, String>>,
    flags: Vec<Leaf>,
    misread: Vec<Fault>,
}

/// One value of one layer.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) path: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// The content of the layers.
#[derive(Default)]
pub(super) struct Layers {
    /// All leaves, weakest layer first.
    pub(super) leaves: Vec<Leaf>,
    /// The tables of the lists, in their order.
    pub(super) rows: Vec<Row>,
    /// The faults of what could not be read at all.
    pub(super) faults: Vec<Fault>,
}

impl Sources {
    /// Only the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file.
    #[must_use]
    pub fn file(mut self, path: Option<&Path>) -> Self {
        self.file = path.map(Path::to_owned);
        self
    }

    /// Uses these variables instead of the environment of the process.
    #[must_use]
    pub fn environment<K: Into<String>, V: Into<String>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = Some(variables.collect());
        self
    }

    /// Adds a flag with its own name, such as `--listen`, if it was given.
    #[must_use]
    pub fn flag(mut self, name: &str, path: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.push_flag(format!("{name} {value}"), path, value);
        }
        self
    }

    /// Adds `--set section.key=value`.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        let argument = format!("--set {assignment}");
        match assignment.split_once('=') {
            Some((path, _)) if SECRETS.contains(&path.trim()) => {
                let path = path.trim();
                let variable = format!("TENURE__{}", path.to_ascii_uppercase().replace('.', "__"));
                self.misread.push(Fault {
                    origin: Origin::Flag { argument: format!("--set {path}=…") },
                    key: Some(path.to_owned()),
                    problem: format!(
                        "is a secret, and arguments are seen by every user of this machine: use {path}_file, the \
                         settings file or {variable}"
                    ),
                });
            }
            // A URL may contain a password.
            Some((path, value)) if value.contains('@') && value.contains("://") => {
                self.push_flag(format!("--set {path}=…"), path.trim(), value.trim());
            }
            Some((path, value)) => self.push_flag(argument, path.trim(), value.trim()),
            None => self.misread.push(Fault {
                origin: Origin::Flag { argument },
                key: None,
                problem: "must be written section.key=value".into(),
            }),
        }
        self
    }

    fn push_flag(&mut self, argument: String, path: &str, value: &str) {
        self.flags.push(Leaf {
            path: path.to_owned(),
            value: Value::new(None, value),
            origin: Origin::Flag { argument },
        });
    }

    /// Reads all layers.
    pub(super) fn layers(&self) -> Layers {
        let mut layers = Layers { faults: self.misread.clone(), ..Layers::default() };
        if let Some(path) = &self.file {
            read_file(path, &mut layers);
        }
        self.read_environment(&mut layers.leaves, &mut layers.faults);
        layers.leaves.extend(self.flags.iter().cloned());
        layers
    }

    fn read_environment(&self, leaves: &mut Vec<Leaf>, faults: &mut Vec<Fault>) {
        let source = Environment::with_prefix(PREFIX)
            .prefix_separator(SEPARATOR)
            .separator(SEPARATOR)
            .source(self.environment.clone());
        match source.collect() {
            Ok(found) => {
                let mut found: Vec<_> = found.into_iter().collect();
                found.sort_by(|(a, _), (b, _)| a.cmp(b));
                leaves.extend(found.into_iter().map(|(path, value)| {
                    let variable = path.to_uppercase().replace('.', SEPARATOR);
                    let variable = format!("{PREFIX}{SEPARATOR}{variable}");
                    Leaf { path, value, origin: Origin::Environment { variable } }
                }));
            }
            Err(error) => faults.push(Fault {
                origin: Origin::Environment { variable: format!("{PREFIX}{SEPARATOR}*") },
                key: None,
                problem: error.to_string(),
            }),
        }
    }
}

fn read_file(path: &Path, layers: &mut Layers) {
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
    let shared = Arc::new(path.to_owned());
    let at = |line| Origin::File { path: Arc::clone(&shared), line };
    let line_of = |offset: usize| content[..offset].matches('\n').count() + 1;
    let (table, errors) = DeTable::parse_recoverable(content);
    layers.faults.extend(errors.into_iter().map(|error| Fault {
        origin: at(error.span().map(|span| line_of(span.start))),
        key: None,
        problem: error.message().to_owned(),
    }));
    let Layers { leaves, rows, .. } = layers;
    flatten("", table.get_ref(), &mut |path, offset, value| {
        if rows::LISTS.contains(&path.as_str())
            && let Some(found) = Row::all(&path, value, &shared, &line_of)
        {
            return rows.extend(found);
        }
        leaves.push(Leaf { path, value: plain(value), origin: at(Some(line_of(offset))) });
    });
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

/// Joins two parts of a path. A part that contains a dot is quoted, so that it stays one part.
fn join(prefix: &str, part: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let part =
        if part.is_empty() || !part.chars().all(bare) { format!("{part:?}") } else { part.into() };
    if prefix.is_empty() { part } else { format!("{prefix}.{part}") }
}

fn plain(value: &Spanned<DeValue<'_>>) -> Value {
    let kind = match value.get_ref() {
        DeValue::String(text) => ValueKind::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => ValueKind::I64(number),
            Err(_) => ValueKind::String(number.to_string()),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => ValueKind::Float(number),
            Err(_) => ValueKind::String(number.to_string()),
        },
        DeValue::Boolean(flag) => ValueKind::Boolean(*flag),
        DeValue::Datetime(instant) => ValueKind::String(instant.to_string()),
        DeValue::Array(items) => ValueKind::Array(items.iter().map(plain).collect()),
        DeValue::Table(_) => ValueKind::Table(config::Map::new()),
    };
    Value::new(None, kind)
}
