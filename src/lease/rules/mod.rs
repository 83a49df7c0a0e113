//! The broken variants of the protocol's rules.

mod mutant;

pub use mutant::Mutant;
