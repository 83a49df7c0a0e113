//! A request to hand a lease over, as the record keeps it.

use serde::{Deserialize, Serialize};

/// A request to hand a lease over, as the record keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handover {
    /// Why the lease must be handed over, for people.
    pub reason: Box<str>,
    /// Who asks for the hand-over, for people.
    pub actor: Box<str>,
    /// How many milliseconds the holder has, counted from the commit or from the restart after it.
    pub span_ms: u64,
}
