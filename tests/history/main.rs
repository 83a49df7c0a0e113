//! The history checker, put to the question.

#[path = "mod.rs"]
mod history;
