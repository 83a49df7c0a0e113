//! The problems that operations may be answered with.

use actix_web::http::Method;
use utoipa::{
    Modify,
    openapi::{Content, OpenApi as Spec, Ref, RefOr, Response, path::Operation},
};

use crate::http::{
    caller::{Need, need, pace},
    door::{class, is_vital},
};

/// Adds the problems that many operations share, and gives problem documents their own content type.
pub struct Problems;

impl Modify for Problems {
    fn modify(&self, spec: &mut Spec) {
        for (path, item) in &mut spec.paths.paths {
            let operations = [
                (Method::GET, &mut item.get),
                (Method::POST, &mut item.post),
                (Method::DELETE, &mut item.delete),
            ];
            for (method, operation) in operations {
                let Some(operation) = operation else { continue };
                add_shared(&method, path, operation);
                set_content_types(operation);
            }
        }
    }
}

fn add_shared(method: &Method, path: &str, operation: &mut Operation) {
    let takes_body = operation.request_body.is_some();
    let bodies: &[_] = if takes_body { &OF_BODIES } else { &[] };
    for (status, description) in OF_ALL.iter().chain(bodies) {
        let responses = &mut operation.responses.responses;
        responses.entry((*status).into()).or_insert_with(|| problem(description).into());
    }
    if need(method, path) != Need::Nothing {
        let responses = &mut operation.responses.responses;
        responses.entry("401".into()).or_insert_with(|| problem(UNKNOWN).into());
    }
    if pace(method, path).is_some() {
        may_be(operation, "429", LIMITED);
    }
    if takes_body {
        may_be(operation, "503", NO_ROOM);
    }
    if !is_vital(path) {
        may_be(operation, "503", CROWDED);
    }
    if class(method, path).is_some() {
        may_be(operation, "503", OVERLOADED);
    }
}

fn set_content_types(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        let RefOr::T(response) = response else { continue };
        let is_problem =
            |content: &RefOr<_>| matches!(content, RefOr::T(content) if names_problem(content));
        if response.content.get(JSON).is_some_and(is_problem)
            && let Some(content) = response.content.shift_remove(JSON)
        {
            response.content.insert("application/problem+json".into(), content);
        }
    }
}

/// A response with a problem document.
fn problem(description: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name("Problem")));
    Response::builder().description(description).content(JSON, content).build()
}

/// Adds a reason why a call may be answered with this status.
fn may_be(operation: &mut Operation, status: &str, reason: &str) {
    match operation.responses.responses.get_mut(status) {
        Some(RefOr::T(response)) => {
            response.description = format!("{}; {reason}", response.description);
        }
        _ => drop(operation.responses.responses.insert(status.into(), problem(reason).into())),
    }
}

const NO_ROOM: &str =
    "`too-many-bodies`: the bodies of other calls take all of `limits.body_bytes`";
const CROWDED: &str = "`too-many-connections`: all connections have a call that is being served";
const OVERLOADED: &str =
    "`overloaded`: the coordinator has too much to do; `Retry-After` says when to try again";
const LIMITED: &str = "`rate-limited`: the caller's principal, or its address, makes more calls per second than its limit allows; \
                       `limit-reached`: the principal uses all that another limit allows";
const UNKNOWN: &str = "`unauthenticated`: an access file is in force, and the caller shows no valid token or certificate";
const JSON: &str = "application/json";
/// The problems that every call may be answered with.
const OF_ALL: [(&str, &str); 3] = [
    ("400", "`forged-header`: a header that only a node may send"),
    (
        "403",
        "`forbidden`: the caller's principal lacks a right; `foreign-origin`: a web page of another origin sent it",
    ),
    ("421", "`unknown-host`: the coordinator is not known by this name"),
];
/// The problems that every call with a body may be answered with.
const OF_BODIES: [(&str, &str); 2] = [
    ("408", "`request-timeout`: the body did not come in time"),
    ("415", "`not-json`: a browser sent it without `content-type: application/json`"),
];

fn names_problem(content: &Content) -> bool {
    let Some(RefOr::Ref(schema)) = &content.schema else { return false };
    schema.ref_location.ends_with("/Problem")
}
