//! The schemas say what is checked.

use actix_web::http::Method;
use utoipa::openapi::RefOr;

use super::document;
use crate::{
    api::{
        Code,
        limits::{MAX_PACE_MS, MAX_PAGE, MAX_POLL_MS, MAX_ROWS},
    },
    http::{
        caller::{Need, need},
        door::{class, is_vital},
    },
    telemetry::ShedClass,
};

/// The attributes that describe a query take only literals.
#[test]
fn queries_name_the_bounds_that_are_checked() {
    let document = serde_json::to_value(document()).expect("the document is JSON");
    let bounds = [
        ("/v1/leases", "limit", MAX_PAGE as u64),
        ("/v1/sessions", "limit", MAX_PAGE as u64),
        ("/v1/events", "wait_ms", MAX_POLL_MS),
        ("/v1/events", "pace_ms", MAX_PACE_MS),
        ("/v1/top", "limit", MAX_ROWS as u64),
        ("/v1/history", "limit", MAX_PAGE as u64),
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

/// A path that the table of rights lacks would only ask for an account.
#[test]
fn every_operation_needs_a_right_or_shows_nothing() {
    for (path, item) in &document().paths.paths {
        let methods =
            [(Method::GET, &item.get), (Method::POST, &item.post), (Method::DELETE, &item.delete)];
        for (method, _) in methods.into_iter().filter(|(_, operation)| operation.is_some()) {
            let needed = need(&method, path);
            let is_open = ["/livez", "/readyz"].contains(&path.as_str());
            assert_eq!(needed == Need::Nothing, is_open, "{method} {path}");
            assert_ne!(needed, Need::Account, "{method} {path}");
        }
    }
}

/// A new operation needs a decision here: it is shed, or it is always served.
#[test]
fn every_operation_is_shed_or_served_under_too_much_load() {
    use ShedClass::{Acquire, List, Session, Stream};
    let shed = [
        ("POST /v1/acquire", Acquire),
        ("POST /v1/acquire-all", Acquire),
        ("POST /v1/acquire-any", Acquire),
        ("POST /v1/sessions", Session),
        ("GET /v1/leases", List),
        ("GET /v1/sessions", List),
        ("GET /v1/pools", List),
        ("GET /v1/events", Stream),
        ("GET /v1/pools/{pool}/assignment", List),
        ("GET /v1/pools/{pool}/assignment/changes", Stream),
    ];
    let served = [
        "POST /v1/heartbeat",
        "POST /v1/heartbeats",
        "POST /v1/release",
        "POST /v1/releases",
        "POST /v1/transfer",
        "POST /v1/check",
        "GET /v1/leases/{key}",
        "GET /v1/stream",
        "POST /v1/admin/revoke",
        "POST /v1/admin/pin",
        "POST /v1/admin/unpin",
        "POST /v1/admin/drain",
        "POST /v1/admin/fence-skip",
        "POST /v1/admin/fence-retry",
        "POST /v1/admin/forget",
        "POST /v1/admin/pool",
        "POST /v1/admin/access",
        "GET /v1/revocations",
        "POST /v1/sessions/{id}/heartbeat",
        "POST /v1/sessions/{id}/drain",
        "GET /v1/sessions/{id}",
        "DELETE /v1/sessions/{id}",
        "GET /v1/pools/{pool}",
        "GET /v1/pools/{pool}/plan",
        "GET /v1/info",
        "GET /v1/nodes",
        "GET /v1/status",
        "GET /v1/status/series",
        "GET /v1/top",
        "GET /v1/history",
        "GET /livez",
        "GET /readyz",
        "GET /metrics",
    ];
    let mut operations = 0;
    for (path, item) in &document().paths.paths {
        let methods =
            [(Method::GET, &item.get), (Method::POST, &item.post), (Method::DELETE, &item.delete)];
        for (method, _) in methods.into_iter().filter(|(_, operation)| operation.is_some()) {
            let operation = format!("{method} {path}");
            let expected =
                shed.iter().find(|(name, _)| *name == operation).map(|(_, class)| *class);
            assert!(expected.is_some() || served.contains(&&*operation), "{operation}");
            assert_eq!(class(&method, path), expected, "{operation}");
            assert!(expected.is_none() || !is_vital(path), "{operation}");
            operations += 1;
        }
    }
    assert_eq!(operations, shed.len() + served.len());
    assert_eq!(class(&Method::HEAD, "/v1/leases"), Some(List));
}
