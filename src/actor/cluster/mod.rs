//! This node among the others.

pub(in crate::actor) mod node;
pub(in crate::actor) mod roster;
pub(in crate::actor) mod sweep;
