//! Values that are never shown.

use std::{fmt, path::Path};

/// Text that never appears in output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret with this text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Whether no secret was set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, for the code that authenticates with it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Why a file with a secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path} ({key}) {why}")]
pub struct FileError {
    key: &'static str,
    path: String,
    why: String,
}

impl Secret {
    /// The text, or the first line of the file if one is named; `None` if there is neither.
    ///
    /// # Errors
    /// [`FileError`] when the file cannot be read, or begins with an empty line.
    pub fn or_file(&self, key: &'static str, file: &Path) -> Result<Option<String>, FileError> {
        if file.as_os_str().is_empty() {
            return Ok(Some(self.0.clone()).filter(|text| !text.is_empty()));
        }
        let fault = |why: String| FileError { key, path: file.display().to_string(), why };
        first_line(file).map(Some).map_err(fault)
    }
}

/// The secret in a file: its first line.
///
/// # Errors
/// The file cannot be read, or begins with an empty line.
pub fn first_line(file: &Path) -> Result<String, String> {
    let content =
        std::fs::read_to_string(file).map_err(|error| format!("cannot be read: {error}"))?;
    match content.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err("has an empty first line".into()),
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret()" } else { "Secret(…)" })
    }
}
