//! HTTP as cheap as hyper gives it: one request at a time on one keep-alive connection.

mod answers;
mod connection;
mod events;
mod means;
mod target;

pub use answers::{Alive, Grant, Grants, Leases, Released, Results};
pub use connection::{Answer, Connection};
pub use events::{Event, Subscriber};
pub use means::Means;
pub use target::{Request, Target, json};
