//! Reads requests strictly: bodies, queries, single fields.

mod body;
mod bounds;
mod fields;
mod mark;
mod query;
mod session_spec;
mod words;

pub use body::{Body, OptionalBody};
#[cfg(feature = "testing")]
pub use body::{Bounded, parse, parse_optional};
pub use fields::{kept_by, key, lease_id, owner, session_id};
pub use mark::mark;
#[cfg(feature = "testing")]
pub use query::parse_query;
pub use query::query;
pub use session_spec::read_spec;
