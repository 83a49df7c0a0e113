//! The sources of settings: the file, the environment and the flags.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use config::{Environment, Source, Value};

use super::{
    fault::{Fault, Origin},
    layers::{Layers, Leaf},
    toml_file,
    tree::setting,
};

/// The prefix of environment variables that are settings.
const PREFIX: &str = "TENURE";
/// The separator between the parts of such a variable. A single `_` is part of a key.
const SEPARATOR: &str = "__";

/// The sources of settings, in addition to the built-in defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<PathBuf>,
    environment: Option<HashMap<String, String>>,
    flags: Vec<Leaf>,
    misread: Vec<Fault>,
}

impl Sources {
    /// No sources beyond the built-in defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file, if one is named.
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

    /// Adds an assignment `section.key=value`, as the flag `--set` takes it.
    #[must_use]
    pub fn set(mut self, assignment: &str) -> Self {
        let argument = format!("--set {assignment}");
        match assignment.split_once('=') {
            Some((path, _)) if is_secret(path.trim()) => {
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

    pub(super) fn layers(&self) -> Layers {
        let mut layers = Layers { faults: self.misread.clone(), ..Layers::default() };
        if let Some(path) = &self.file {
            toml_file::read(path, &mut layers);
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

fn is_secret(path: &str) -> bool {
    setting(path).is_some_and(|setting| setting.about.secret)
}
