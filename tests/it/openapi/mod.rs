//! `openapi.json` in the repository is what the code says; `UPDATE=1` writes it anew. Its examples are tried.

mod document;
mod examples;
mod learned;
mod schemas;

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

fn generated() -> Value {
    serde_json::to_value(tenure::http::document()).expect("the document is JSON")
}

#[test]
fn the_committed_document_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = serde_json::to_string_pretty(&generated()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("openapi.json can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("openapi.json is there");
    assert!(committed == text, "openapi.json is not what the code says: run `make openapi`");
}

#[test]
fn every_operation_says_what_it_answers_when_it_refuses() {
    let document = generated();
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() >= 19, "{}", paths.len());
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            let codes: BTreeSet<&str> = operation["responses"]
                .as_object()
                .expect("responses")
                .keys()
                .map(String::as_str)
                .collect();
            let succeeds = ["101", "200", "201"].iter().any(|code| codes.contains(code));
            assert!(succeeds, "{method} {path}: {codes:?}");
            let takes_nothing = ["/v1/info", "/v1/nodes", "/v1/stream"];
            if path.starts_with("/v1/") && !takes_nothing.contains(&path.as_str()) {
                assert!(codes.contains("400"), "{method} {path}: {codes:?}");
            }
            assert!(operation["summary"].is_string(), "{method} {path} has no summary");
        }
    }
}

#[test]
fn operations_have_names_of_their_own_and_links_lead_to_them() {
    let document = generated();
    let mut names = BTreeSet::new();
    let operations = || {
        let paths = document["paths"].as_object().expect("paths").values();
        paths.flat_map(|operations| operations.as_object().expect("operations").values())
    };
    for operation in operations() {
        let name = operation["operationId"].as_str().expect("a name");
        assert!(names.insert(name), "{name} is the name of two operations");
    }
    let responses = operations().flat_map(|one| one["responses"].as_object().expect("responses"));
    let links = responses.filter_map(|(_, response)| response["links"].as_object()).flatten();
    let targets: BTreeSet<_> =
        links.map(|(_, link)| link["operationId"].as_str().expect("a name")).collect();
    assert!(targets.len() >= 10 && targets.is_subset(&names), "{targets:?}");
}

#[test]
fn a_refusal_is_a_problem_document() {
    let document = generated();
    let paths = document["paths"].as_object().expect("paths");
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().expect("operations") {
            let responses = operation["responses"].as_object().expect("responses");
            // A connection that is a WebSocket from now on has no body.
            for (status, response) in responses.iter().filter(|(status, _)| *status != "101") {
                let kinds: Vec<_> =
                    response["content"].as_object().expect("a body").keys().collect();
                let refusal =
                    status.starts_with(['4', '5']) && (path != "/readyz" || status != "503");
                let problem = kinds == ["application/problem+json"];
                assert_eq!(refusal, problem, "{method} {path} {status}: {kinds:?}");
            }
        }
    }
}

#[test]
fn no_secret_is_in_a_public_shape() {
    let document = generated();
    let lease = &document["components"]["schemas"]["Lease"]["properties"];
    assert!(lease["key"].is_object());
    assert!(lease.get("lease_id").is_none());
}
