//! The output formats.

use clap::ValueEnum;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people
    Table,
    /// Aligned columns, with more of them where there are more
    Wide,
    /// One indented JSON document; streams are written as `jsonl`
    Json,
    /// One JSON object per line
    Jsonl,
    /// The key alone, one per line
    Key,
    /// The fencing token alone, one per line
    Token,
    /// The secret of the grant alone, one per line
    LeaseId,
    /// The secret id of the new session alone
    SessionId,
}

impl Format {
    /// Whether programs read it. Errors are then JSON too.
    #[must_use]
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::Jsonl)
    }

    /// The field of a result that is printed alone, if only one is.
    pub(super) fn field(self) -> Option<&'static str> {
        match self {
            Self::Table | Self::Wide | Self::Json | Self::Jsonl => None,
            Self::Key => Some("key"),
            Self::Token => Some("token"),
            Self::LeaseId => Some("lease_id"),
            Self::SessionId => Some("id"),
        }
    }

    /// What the user writes.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
