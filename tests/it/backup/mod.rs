//! Backup, restore and raising the epoch: with the real program, on real stores.

mod embedded;
mod file;
pub mod node;
mod rotate;
mod scenario;
pub mod shared;
