//! The faults of a file, and the values that may be read from it.

use std::path::{Path, PathBuf};

use rustix::process::Uid;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::settings::{Fault, Origin, TomlText};

/// A value, and where it is.
pub(super) type Placed<T> = (T, usize);

/// The text of a file, and its faults.
pub(super) struct Cells<'c> {
    text: TomlText<'c>,
    /// Where the file is. Paths in it begin there.
    pub(super) dir: PathBuf,
    /// Beside root, only this user may change the files that it names.
    pub(super) user: Uid,
    /// The files that it names.
    pub(super) named: Vec<PathBuf>,
    pub(super) faults: Vec<Fault>,
}

impl<'c> Cells<'c> {
    pub(super) fn new(path: &Path, content: &'c str, user: Uid) -> Self {
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        let text = TomlText::new(path, content);
        Self { text, dir, user, named: Vec::new(), faults: Vec::new() }
    }

    pub(super) fn parse(&mut self) -> DeTable<'c> {
        self.text.parse(&mut self.faults)
    }

    pub(super) fn line(&self, offset: usize) -> usize {
        self.text.line(offset)
    }

    pub(super) fn fault(&mut self, offset: usize, key: &str, problem: impl Into<String>) {
        let origin = self.text.at(offset);
        self.faults.push(Fault { origin, key: Some(key.to_owned()), problem: problem.into() });
    }

    pub(super) fn fault_of_all(&mut self, problem: &str) {
        let origin = self.text.at_line(None);
        self.faults.push(Fault { origin, key: None, problem: problem.to_owned() });
    }

    /// A text.
    pub(super) fn text(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<Placed<String>> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) => Some((text.to_string(), at)),
            other => {
                self.fault(at, key, format!("is {}, and must be text in quotes", kind(other)));
                None
            }
        }
    }

    /// A text, or a list of texts.
    pub(super) fn texts(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Vec<Placed<String>> {
        self.one_or_list(key, value, Self::text)
    }

    /// What `read` reads, or a list of it. The list must not be empty.
    pub(super) fn one_or_list<T>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: impl Fn(&mut Self, &str, &Spanned<DeValue<'_>>) -> Option<T>,
    ) -> Vec<T> {
        let DeValue::Array(items) = value.get_ref() else {
            return read(self, key, value).into_iter().collect();
        };
        if items.is_empty() {
            self.fault(value.span().start, key, "is an empty list: leave it out, or name one");
        }
        items.iter().filter_map(|item| read(self, key, item)).collect()
    }

    /// The number of a user.
    pub(super) fn uid(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Placed<u32>> {
        self.whole(key, value, 0)
    }

    /// A whole number from `least`.
    pub(super) fn whole(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        least: u32,
    ) -> Option<Placed<u32>> {
        let at = value.span().start;
        let DeValue::Integer(number) = value.get_ref() else {
            let problem = format!("is {}, and must be a whole number", kind(value.get_ref()));
            self.fault(at, key, problem);
            return None;
        };
        let read = i128::from_str_radix(number.as_str(), number.radix()).ok();
        let fits = read.and_then(|number| u32::try_from(number).ok()).filter(|n| *n >= least);
        if fits.is_none() {
            let problem = format!("is {number}, and must be from {least} to {}", u32::MAX);
            self.fault(at, key, problem);
        }
        fits.map(|number| (number, at))
    }
}

/// What kind of value it is, for people.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The line of a fault; none for one of the whole file.
pub(super) fn line(fault: &Fault) -> Option<usize> {
    match fault.origin {
        Origin::File { line, .. } => line,
        _ => None,
    }
}
