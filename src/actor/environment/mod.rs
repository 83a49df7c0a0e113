//! The policies in effect, and where checks may connect to.

pub(in crate::actor) mod policy_table;
pub(in crate::actor) mod reach;
