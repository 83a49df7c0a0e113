//! The order of an acquire-any.

use serde::{Deserialize, Serialize};

/// The order in which an acquire-any tries its candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AnyOrder {
    /// A random order. Each order is equally likely.
    #[default]
    Random,
    /// The order of the request.
    Listed,
    /// First the keys that the owner was the last to hold, then the others.
    Sticky,
}

impl AnyOrder {
    /// The word for it in JSON documents.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Listed => "listed",
            Self::Sticky => "sticky",
        }
    }
}
