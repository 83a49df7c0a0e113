//! Who may do what: principals, their rights, and what nobody else learns or changes.

mod broken;
pub mod cast;
mod commands;
mod leaks;
mod limits;
mod matrix;
mod nodes;
mod property;
mod removal;
mod start;
