//! Replaces dead actors, and publishes what the store committed.

pub(in crate::actor) mod supervisor;
