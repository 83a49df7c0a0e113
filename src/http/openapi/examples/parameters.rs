//! Examples of the parameters of paths and queries.

use std::mem;

use serde_json::{Value, json};
use utoipa::openapi::{
    RefOr,
    path::{Operation, ParameterBuilder},
};

use super::values::{POOL, SESSION, SESSION_ID};

/// Adds an example to each parameter of an operation.
pub fn add(operation_id: &str, operation: &mut Operation) {
    for parameter in operation.parameters.iter_mut().flatten() {
        let RefOr::T(parameter) = parameter else { continue };
        let example = example(operation_id, &parameter.name);
        // Only the builder can set it.
        *parameter = ParameterBuilder::from(mem::take(parameter)).example(example).build();
    }
}

/// A value for a parameter. All of an operation's parameters together, but for `before`, are a query that finds
/// something.
fn example(operation_id: &str, parameter: &str) -> Option<Value> {
    Some(match (operation_id, parameter) {
        ("list_sessions", "after") => json!("00000000000000000000000000000000"),
        ("events" | "follow_assignment", "after") => json!("0"),
        (_, "after") => json!("shards/16"),
        (_, "before") => json!("shards/18"),
        (_, "by") => json!("keys"),
        (_, "cause") => json!("granted"),
        (_, "format") => json!("json"),
        (_, "gate") => json!(1),
        (_, "id") => json!(SESSION_ID),
        (_, "key") => json!("shards/17"),
        (_, "limit") => json!(100),
        (_, "owner") => json!("worker-1"),
        (_, "pool") => json!(POOL),
        (_, "prefix") => json!("shards/"),
        (_, "session") => json!(SESSION),
        (_, "state") => json!("held"),
        (_, "step") => json!("1m"),
        (_, "types") => json!("granted,released"),
        (_, "wait_ms") => json!(1000),
        (_, "pace_ms") => json!(250),
        (_, "window") => json!("1m"),
        _ => return None,
    })
}
