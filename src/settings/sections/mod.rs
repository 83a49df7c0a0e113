//! The sections of a settings file, except those of the stores.

mod actors;
mod audit;
mod auth;
mod checks;
mod events;
mod limits;
mod node;
mod server;
mod telemetry;

pub use actors::Actors;
pub use audit::Audit;
pub use auth::Auth;
pub use checks::Checks;
pub use events::Events;
pub use limits::Limits;
pub(super) use limits::{NUMBERS_OF_KEYS, TTLS};
pub use node::Node;
pub use server::{Server, Workers};
pub use telemetry::{LogFormat, Telemetry};
