//! Sessions: what a node knows of them, and what it does for them.

pub(in crate::actor) mod bonds;
pub(in crate::actor) mod checks;
pub(in crate::actor) mod cleanup;
pub(in crate::actor) mod handovers;
mod places;
pub(in crate::actor) mod revoke;
pub(in crate::actor) mod sessions;
