//! Calls between the nodes of one store: the headers that only nodes may send, the seal that proves them, and the
//! client that sends them.

mod forwarder;
mod headers;
mod nodes;
mod seal;

pub use forwarder::{ANSWER, Forwarder};
pub use headers::{FORWARDED_FOR, MOVED, PART, PLACE, PRINCIPAL, SHED, UNPROVEN, WAITED};
pub use nodes::Nodes;
pub use seal::{Forged, Seal, Sealed, was_forwarded};
