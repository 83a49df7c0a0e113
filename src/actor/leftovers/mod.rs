//! Removes in the background the records of forgotten keys, and grants whose callers left before they were told.

mod forgotten;
mod unheard;

pub use self::{forgotten::Forgotten, unheard::UnheardGrants};
