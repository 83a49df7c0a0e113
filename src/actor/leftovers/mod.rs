//! What is removed in the background.

pub(in crate::actor) mod forgotten;
pub(in crate::actor) mod unheard;
