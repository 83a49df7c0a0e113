//! What is removed in the background: the records of forgotten keys, and grants of which nobody was told.

mod forgotten;
mod unheard;

pub use self::{forgotten::Forgotten, unheard::UnheardGrants};
