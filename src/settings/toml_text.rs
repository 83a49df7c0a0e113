//! A TOML text whose values have lines.

use std::{path::Path, path::PathBuf, sync::Arc};

use toml::de::DeTable;

use super::fault::{Fault, Origin};

/// The text of a TOML file.
#[derive(Clone, Debug)]
pub(crate) struct TomlText<'c> {
    path: Arc<PathBuf>,
    content: &'c str,
}

impl<'c> TomlText<'c> {
    /// The content of the file at this path.
    #[must_use]
    pub(crate) fn new(path: &Path, content: &'c str) -> Self {
        Self { path: Arc::new(path.to_owned()), content }
    }

    /// Everything in it that can be read. The rest are faults.
    pub(crate) fn parse(&self, faults: &mut Vec<Fault>) -> DeTable<'c> {
        let (table, errors) = DeTable::parse_recoverable(self.content);
        faults.extend(errors.into_iter().map(|error| Fault {
            origin: self.at_line(error.span().map(|span| self.line(span.start))),
            key: None,
            problem: error.message().to_owned(),
        }));
        table.into_inner()
    }

    /// The line of a byte, counted from 1.
    #[must_use]
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.content.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// The place of a byte.
    #[must_use]
    pub(crate) fn at(&self, offset: usize) -> Origin {
        self.at_line(Some(self.line(offset)))
    }

    /// A line of the file, or the file as a whole.
    #[must_use]
    pub(crate) fn at_line(&self, line: Option<usize>) -> Origin {
        Origin::File { path: Arc::clone(&self.path), line }
    }

    pub(super) fn path(&self) -> &Arc<PathBuf> {
        &self.path
    }
}
