//! Values that are not shown.

use std::fmt;

use serde::{Serialize, Serializer};

/// The keys whose values are secrets: neither `config show` nor a fault prints them.
pub(super) const SECRETS: [&str; 2] = ["store.nats.password", "store.nats.token"];

/// Text that does not appear in what is printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Nothing was set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, for whoever needs it to prove something.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret()" } else { "Secret(…)" })
    }
}

/// Settings are serialized to be shown.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.is_empty() { "" } else { "…" })
    }
}
