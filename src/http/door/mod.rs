//! What a request passes before a handler serves it: the connection and its place, the names and the seal, the shedding
//! of load, and the budget of all bodies.

mod addresses;
mod audit;
mod budget;
mod classes;
mod discard;
mod handshake;
mod lag;
mod line;
mod middleware;
mod names;
mod overload;
mod places;
mod stream;
mod traced;

pub use addresses::Addresses;
pub use budget::{Budget, Buffer, Charged, FREE};
pub use classes::class;
pub use discard::{BODY_TIMEOUT, chunk, length};
pub use handshake::Tls;
pub use line::{Line, Place};
pub use middleware::{Door, is_vital};
pub use names::Names;
pub use overload::{LongestLag, Shedding};
pub use places::{Places, RESERVED, Seat, Waiting};
pub use stream::Stream;
