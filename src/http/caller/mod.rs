//! Who sends a request, and what it may do.
//!
//! Guarantees: where an access file is in force, a request without a known principal reaches no handler that shows or
//! changes state. A cookie is good for reading alone. A forwarded call has the rights that this node's own file gives
//! its principal.
//!
//! Does not guarantee: that a caller has a right to the key that it names. The handlers ask [`Caller`] for that.

mod cookie;
mod identity;
mod judge;
mod needs;
mod reading;
#[cfg(test)]
mod tests;
mod usage;

pub use cookie::{COOKIE, Cookies};
pub use identity::{PeerCertificate, PeerUid};
pub use judge::Gatekeeper;
pub use needs::{Need, need};
pub use reading::Caller;
pub use usage::{InUse, Kind};
