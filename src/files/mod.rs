//! Files that a coordinator depends on: who else may change them, and file systems that do not answer.
//!
//! Guarantees: [`read_guarded`] returns no content that another user than root and the given one could have replaced.
//! [`apart()`] holds up neither the thread that waits nor the end of the process.
//!
//! Does not guarantee: that a file stays as it was read.

mod apart;
mod guarded;
mod way;

pub use apart::apart;
pub use guarded::{judged_for, read_guarded, rights_on_the_way};
