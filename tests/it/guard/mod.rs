//! `tenure guard`: its state machine, put to the question (`machine`); three agents on a real coordinator
//! under faults (`faults`); its scripts and what is said (`scripts`); the example and the units
//! (`example`).

#![expect(clippy::disallowed_methods, reason = "the tests measure from outside")]

mod example;
mod faults;
mod machine;
mod scripts;
pub mod stage;
