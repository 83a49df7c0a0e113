//! What a node does for pools.

pub(in crate::actor) mod balance;
