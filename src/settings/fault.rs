//! The faults of settings, and where they are.

use std::{fmt, path::PathBuf, sync::Arc};

/// The layer that a value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// No source sets the value: it is the built-in default.
    #[default]
    Default,
    /// A TOML file of settings.
    File {
        /// The path by which the file was named.
        path: Arc<PathBuf>,
        /// The line, counted from 1; none for a fault of the whole file.
        line: Option<usize>,
    },
    /// A variable of the environment, such as `TENURE__LIMITS__KEYS`.
    Environment {
        /// The name of the variable, with its prefix.
        variable: String,
    },
    /// An argument on the command line.
    Flag {
        /// The argument as it was written.
        argument: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment {variable}"),
            Self::Flag { argument } => write!(f, "flag {argument}"),
        }
    }
}

/// One fault of the settings, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The layer that has the fault.
    pub origin: Origin,
    /// The key, such as `limits.ttl_min`, if the fault is about one.
    pub key: Option<String>,
    /// What is wrong, for people.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.origin)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.problem)
    }
}

/// All faults, displayed with one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// The value, if there is no fault.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Faults {}
