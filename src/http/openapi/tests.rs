//! The schemas say what is checked.

use super::document;
use crate::api::limits::{MAX_PAGE, MAX_POLL_MS};

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
