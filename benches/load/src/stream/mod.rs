//! One WebSocket with many calls in flight (`GET /v1/stream`), as cheap as it gets: frames are built beforehand.

mod connection;
mod frames;

pub use connection::{Burst, Calls, Kept, Target};
