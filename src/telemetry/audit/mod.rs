//! The audit log: refusals, administrators' calls and administrative reads, as lines of JSON in two hash chains: one of
//! changes, and one of all other calls.
//!
//! Guarantees: each line contains the SHA-256 of the line before it, across rotated files and restarts. [`verify()`] finds
//! a line that was edited, removed, inserted or moved. Refusals and reads take no place of a change, neither in the queue
//! nor in the files, and those of one principal have a bound ([`budget`]). A line that could not be written is counted in
//! `tenure_audit_lost_total` and in the next line that is written. A caller of [`AuditLog::record`] never waits. After
//! [`AuditLog::intend`] has returned, a line of the order is on disk. An end that is gone shows at the next start, and
//! within about a second while the log is written ([`kept`]).
//!
//! Does not guarantee: that a line is on disk before its call is answered, or that it survives a power failure within
//! about a second, unless a caller waited for it; that a user who may write the files and the directory of the last
//! lines did not compute a new chain from some line on, or cut off the end. The digest that goes to the ordinary log each
//! minute shows both.
//!
//! Assumes: one process at a time writes a file. A lock on the file ensures that.

mod budget;
mod chain;
mod entry;
mod kept;
mod lacks;
mod lines;
mod log;
mod queue;
mod tail;
#[cfg(test)]
mod tests;
mod trail;
mod verify;
mod writer;

pub use chain::{Chain, Head, NotAHead};
pub use entry::{Acting, AuditEntry, AuditEvent, Ordered, Subject, bounded};
pub use lacks::LostLines;
pub use log::{AuditFiles, AuditLog, Unkept};
pub use trail::AuditError;
pub use verify::{ChainFault, Checks, Verified, VerifiedChain, verify};
