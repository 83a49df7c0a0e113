//! Examples of problem documents.

use serde_json::json;
use utoipa::openapi::{RefOr, example::Example, path::Operation};

use crate::{api::Code, http::answer::Problem};

const KIND: &str = "application/problem+json";
/// The refusals that a caller meets when all is well, and must tell apart. docs/errors.md explains all codes.
const STATUSES: [&str; 3] = ["404", "409", "423"];

/// Adds an example for each code that the description of such a refusal names, as a caller without the right to read
/// the key is told.
pub fn add(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if !STATUSES.contains(&status.as_str()) {
            continue;
        }
        let Some(RefOr::T(content)) = response.content.get_mut(KIND) else { continue };
        let words = response.description.split('`').skip(1).step_by(2);
        for code in words.filter_map(Code::named) {
            let value = json!(Problem::of(code, code.title()));
            let example = Example::builder().summary(code.title()).value(Some(value)).build();
            content.examples.insert(code.as_str().to_owned(), RefOr::T(example));
        }
    }
}
