//! Exhaustive models of the core: every state that a small world can reach, within bounds, keeps the promises of
//! docs/protocol.md; and each rule that a world can show, once broken, is found.
//!
//! `model`: one key, one process that crashes. `duo`: a session and what it keeps in one process. `pair`: two
//! nodes on one store, with a session, a fence before the next grant, stale reads and crashes together.
//!
//! How far they go is told by `MODEL`: nothing for a debug build, `ci` for eight million states, `full` for eighty
//! million. Both want an optimised build: `make model`.

#![cfg(test)]

#[allow(dead_code, unused_imports, reason = "the tests of the core use more of it")]
#[path = "../it/core/harness/mod.rs"]
mod harness;

mod duo;
mod explore;
mod model;
mod pair;
mod size;
