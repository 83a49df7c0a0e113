//! What answers have in common: JSON with the request's own ids, and problem documents.

mod ids;
mod json;
mod problem;

pub use ids::echo_request_id;
pub use json::{json, rendered_json};
pub use problem::{Problem, ProblemCode};
