//! Redis as a peer: a lock with an owner, a ttl and a fencing token, in a log that is synced before each answer.
//!
//! The tool speaks to it by a few lines of RESP of its own. A client library drives its connections by tasks of their
//! own, which the connections to tenure do without, and the two share the cores with the servers.

mod connection;
mod resp;
mod scripts;
mod server;
mod subscriber;

pub use connection::Target;
pub use resp::{Reply, command};
pub use scripts::Scripts;
pub use server::{EXPIRED, Redis};
pub use subscriber::Subscriber;
