//! The audit log: refusals, administrators' calls and administrative reads, as lines of JSON in a hash chain.
//!
//! Guarantees: each line contains the SHA-256 of the line before it, across rotated files and restarts. [`verify()`] finds
//! a line that was edited, removed, inserted or moved. A line that could not be written is counted in
//! `tenure_audit_lost_total` and in the next line that is written. A caller of [`AuditLog::record`] never waits.
//!
//! Does not guarantee: that a line is on disk before its call is answered, or that it survives a power failure within
//! about a second; that somebody who may write the file did not compute a new chain from some line on, or cut off the
//! end. The digest that goes to the ordinary log each minute shows both.
//!
//! Assumes: one process at a time writes a file. A lock on the file ensures that.

mod chain;
mod entry;
mod log;
mod tail;
#[cfg(test)]
mod tests;
mod trail;
mod verify;

pub use chain::{Head, NotAHead};
pub use entry::{Acting, AuditEntry, AuditEvent, Ordered, Subject, bounded};
pub use log::{AuditLog, LostLines};
pub use trail::AuditError;
pub use verify::{ChainFault, Verified, verify};
