//! Whether a store works.

/// Whether the store can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// The store accepts no writes for now. The text gives the reason in one sentence for people.
    Degraded(String),
    /// The store went backwards, or is another store than before. Nothing may be granted until an operator has
    /// raised the epoch. The text gives the reason in one sentence for people.
    Frozen(String),
}
