//! Reads requests strictly: bodies, queries, single fields.

mod body;
mod bounds;
mod fields;
mod mark;
mod query;
mod rights;
mod session_spec;
mod whole;
mod words;

pub use body::{Body, Bounded, OptionalBody, explain};
#[cfg(feature = "testing")]
pub use body::{parse, parse_optional};
pub use fields::{held, kept_by, key, owner};
pub use mark::mark;
pub use query::{NoQuery, parse_query, query};
pub use session_spec::{
    MAX_PREPARED, read_announced, read_labels, read_prepared, read_report, read_spec,
};
