//! The actor of one key. It carries out what the core (`crate::lease`) decides.

pub(in crate::actor) mod actor;
mod fences;
pub(in crate::actor) mod outcomes;
mod timer;
