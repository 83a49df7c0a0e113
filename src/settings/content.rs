//! The expected content of files that the settings name.

use std::path::Path;

use super::headers::read_headers;

/// The expected content of a file.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// A first line that is not empty.
    Line,
    /// A PEM section whose name ends with this.
    Pem(&'static str),
    /// Headers of HTTP.
    Headers,
}

impl Content {
    /// The fault of a setting that names this file. An empty path names none.
    pub(super) fn fault(self, path: &Path) -> Option<String> {
        let problem = if path.as_os_str().is_empty() { None } else { self.look(path).err() };
        problem.map(|problem| format!("names {}, which {problem}", path.display()))
    }

    fn look(self, path: &Path) -> Result<(), String> {
        if let Self::Headers = self {
            return read_headers(path).map(drop);
        }
        let content =
            std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
        match self {
            Self::Line if content.lines().next().is_none_or(str::is_empty) => {
                Err("has an empty first line".to_owned())
            }
            Self::Pem(name) if !content.lines().any(|line| begins(line, name)) => {
                Err(format!("has no {name} in PEM form"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a PEM section whose name ends with `name` begins here.
fn begins(line: &str, name: &str) -> bool {
    let inside = line.trim().strip_prefix("-----BEGIN ");
    inside.is_some_and(|inside| inside.trim_end_matches('-').ends_with(name))
}
