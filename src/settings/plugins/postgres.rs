//! The kind `postgres`.

use std::path::PathBuf;

use config::{ConfigError, Value};

use super::{
    super::{secret::Secret, table::section},
    strict::{flag, must_be, path, text},
};

/// The table of the postgres plugin, by default.
pub const FENCE_TABLE: &str = "tenure_fence";
/// The table of its notifications, by default.
pub const EVENT_TABLE: &str = "tenure_event";

section! {
    /// Raises the token in a table of PostgreSQL.
    pub struct PostgresPlugin {
        /// URL of the database. Never displayed. Alternatively url_file: a file whose first line is the URL.
        /// sslmode=require uses TLS.
        url: Secret = Secret::default(),
            example = r#""postgres://tenure@10.0.0.7/accounts""#, read database, if plain_text;
        /// File whose first line is the URL. Empty: none.
        url_file: PathBuf = PathBuf::new(), example = "", read path;
        /// Table, optionally with its schema.
        table: String = FENCE_TABLE.to_owned(), read table;
        /// Table of notifications, optionally with its schema.
        event_table: String = EVENT_TABLE.to_owned(), read table;
        /// Whether a password may be sent to another machine without TLS.
        accept_plaintext: bool = false, read flag;
    }
}

fn database(value: Value) -> Result<Secret, ConfigError> {
    let known = |url: &String| {
        ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
    };
    let url = text(value).filter(known).map(Secret::new);
    must_be("a URL such as postgres://user@10.0.0.7/accounts", url)
}

fn table(value: Value) -> Result<String, ConfigError> {
    let name = |name: &str| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && name.len() < 64
            && name.chars().all(word)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let fits = |table: &String| table.split('.').count() <= 2 && table.split('.').all(name);
    let expecting = "the name of a table, perhaps with its schema: letters, digits and _";
    must_be(expecting, text(value).filter(fits))
}

fn plain_text(postgres: &PostgresPlugin) -> Option<String> {
    if postgres.accept_plaintext { None } else { open_url(postgres.url.reveal()) }
}

impl PostgresPlugin {
    /// The fault of `url_file`: the URL in the file sends a password in plain text. A URL that cannot be parsed is
    /// reported when the plugin is created.
    pub(super) fn file_fault(&self) -> Option<String> {
        if self.accept_plaintext {
            return None;
        }
        let url = self.url.or_file("url_file", &self.url_file).ok().flatten()?;
        let problem = open_url(&url)?;
        Some(format!("names {}, whose URL {problem}", self.url_file.display()))
    }
}

/// The fault of a URL with a password that would cross the network in plain text.
#[cfg(feature = "postgres")]
fn open_url(url: &str) -> Option<String> {
    super::super::plaintext::of_postgres(&url.parse().ok()?)
}

#[cfg(not(feature = "postgres"))]
fn open_url(_url: &str) -> Option<String> {
    None
}
