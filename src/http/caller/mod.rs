//! Who sends a request, what it may do, and how much.
//!
//! Guarantees: where an access file is in force, a request without a known principal reaches no handler that shows or
//! changes state. A cookie is good for reading alone. A forwarded call has the rights that this node's own file gives
//! its principal.
//!
//! Does not guarantee: that a caller has a right to the key that it names. The handlers ask [`Caller`] for that.

mod address_rates;
mod connection;
mod cookie;
mod forgeries;
mod identity;
mod judge;
mod meter;
mod needs;
mod network;
mod payer;
mod rate;
mod reading;
#[cfg(test)]
mod tests;
mod usage;
mod within;

pub use connection::{Belongs, Ends};
pub use cookie::Cookies;
pub use identity::{PeerCertificate, PeerUid};
pub use judge::Gatekeeper;
pub use needs::{Need, Pace, keeps, need, pace};
pub use network::network;
pub use payer::Payer;
pub use rate::Charged;
pub use reading::Caller;
pub use usage::{InUse, Kind};
pub use within::Within;
