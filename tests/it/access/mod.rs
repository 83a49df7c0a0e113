//! Who may do what: principals, their rights, and what nobody else learns or changes.

mod broken;
pub mod cast;
mod cells;
mod cluster;
mod commands;
pub mod costs;
mod followed;
pub mod isolation;
mod jwt;
mod leaks;
mod limits;
mod lost;
mod matrix;
mod nodes;
mod one_connection;
mod property;
mod reads;
mod removal;
mod replay;
mod revoked;
mod rights;
mod rows;
mod searches;
#[path = "../../doors/signer.rs"]
mod signer;
mod start;
mod told;
mod world;
