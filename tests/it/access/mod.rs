//! Who may do what: principals, their rights, and what nobody else learns or changes.

mod broken;
pub mod cast;
mod cells;
mod cluster;
mod commands;
mod leaks;
mod matrix;
mod nodes;
mod property;
mod reads;
mod removal;
mod replay;
mod rights;
mod rows;
mod start;
mod world;
