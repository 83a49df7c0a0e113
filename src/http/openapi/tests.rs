//! The schemas say what is checked.

use utoipa::openapi::RefOr;

use super::document;
use crate::api::{
    Code,
    limits::{MAX_PAGE, MAX_POLL_MS},
};

/// The attributes that describe a query take only literals.
#[test]
fn queries_name_the_bounds_that_are_checked() {
    let document = serde_json::to_value(document()).expect("the document is JSON");
    let bounds = [
        ("/v1/leases", "limit", MAX_PAGE as u64),
        ("/v1/sessions", "limit", MAX_PAGE as u64),
        ("/v1/events", "wait_ms", MAX_POLL_MS),
    ];
    for (path, name, bound) in bounds {
        let parameters = document["paths"][path]["get"]["parameters"].as_array();
        let found = parameters.into_iter().flatten().find(|one| one["name"] == name);
        assert_eq!(found.expect("a parameter")["schema"]["maximum"], bound, "{path} {name}");
    }
}

/// The words in backticks that may be codes.
fn quoted_codes(description: &str) -> impl Iterator<Item = &str> {
    let words = description.split('`').skip(1).step_by(2);
    words.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
}

#[test]
fn each_refusal_names_codes_of_its_status() {
    let document = super::document();
    let mut named = 0;
    for (path, item) in &document.paths.paths {
        let operations = [&item.get, &item.post, &item.delete].into_iter().flatten();
        for (status, response) in operations.flat_map(|one| &one.responses.responses) {
            let RefOr::T(response) = response else { continue };
            for word in quoted_codes(&response.description).filter(|_| !status.starts_with('2')) {
                let code = Code::named(word).map(|code| code.status().to_string());
                assert_eq!(code.as_ref(), Some(status), "{path}: {word}");
                named += 1;
            }
        }
    }
    assert!(named > 100, "{named}");
}
