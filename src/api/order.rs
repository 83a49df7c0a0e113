//! The order of an acquire-any.

use serde::{Deserialize, Serialize};

/// The order in which the keys of an acquire-any are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AnyOrder {
    /// Each order equally likely.
    #[default]
    Random,
    /// As listed.
    Listed,
    /// The owner's former keys first.
    Sticky,
}

impl AnyOrder {
    /// The word in documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Listed => "listed",
            Self::Sticky => "sticky",
        }
    }
}
