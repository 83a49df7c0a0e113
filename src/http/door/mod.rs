//! What a request passes before a handler serves it: the connection and its place, the names and the seal, and the
//! budget of all bodies.

mod addresses;
mod budget;
mod line;
mod middleware;
mod names;
mod places;

pub use addresses::Addresses;
pub use budget::{Budget, Buffer, FREE};
pub use line::Line;
pub use middleware::{Door, is_vital};
pub use names::Names;
pub use places::{Places, RESERVED, Seat, Waiting};
