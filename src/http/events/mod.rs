//! Ownership changes, as a stream that resumes without a gap, and by long poll.

mod cloud_event;
mod filter;
mod follow;
mod history;
mod reader;
mod routes;

pub use cloud_event::{
    Begin, data_of, parse_cursor, read_position, render, render_frozen, render_reset,
};
pub use filter::Filter;
pub use follow::follow;
pub use reader::Reader;
pub use routes::Told;
