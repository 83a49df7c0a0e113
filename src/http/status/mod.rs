//! What needs a person, what happened lately, and what changed most: facts of the manager as documents.
//!
//! Guarantees: no byte of a key, an owner or a pool is in a document whose caller may not read all that it stands for.
//! What a list leaves out because of that is counted, and what it leaves out for want of room is left out after that.

mod attention;
mod figures;
mod quoted;
mod top;

pub use attention::{Facts, LISTED, attention};
pub use figures::{figures, millis, point};
pub use top::{By, Reads, rank};
