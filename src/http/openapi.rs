//! Builds the OpenAPI document from the code.

use serde_json::json;
use utoipa::{
    Modify, OpenApi,
    openapi::{Content, OpenApi as Spec, Ref, RefOr, Response, link::Link, path::Operation},
};

use super::{
    door::is_vital,
    handlers::{
        acquire, acquire_any, admin, events, heartbeats, leases, pools, releases, service, sessions,
    },
};

#[derive(OpenApi)]
#[openapi(
    modifiers(&Problems, &Links),
    info(
        title = "tenure",
        description = "Leases with fencing tokens. Durations are integer milliseconds in `*_ms` fields; \
                       instants are RFC 3339 and for people only.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    tags(
        (name = "leases", description = "Take, keep and give back leases"),
        (name = "sessions", description = "One heartbeat for many leases"),
        (name = "events", description = "Follow ownership changes"),
        (name = "admin", description = "What administrators order"),
        (name = "service", description = "Probes and information"),
    ),
    paths(
        acquire::acquire, acquire_any::acquire_any, heartbeats::heartbeat, heartbeats::heartbeats,
        releases::release, releases::releases, releases::transfer, leases::check, leases::get,
        leases::list, events::events, admin::revoke, admin::pin, admin::unpin, admin::drain,
        admin::fence_skip, admin::forget, sessions::open, sessions::list, sessions::get, sessions::close,
        sessions::heartbeat, pools::list, pools::get, sessions::drain,
        service::livez, service::readyz, service::metrics, service::info, service::nodes,
    ),
)]
struct Document;

/// Gives problem documents their own content type.
struct Problems;

impl Modify for Problems {
    fn modify(&self, spec: &mut Spec) {
        let operations = spec.paths.paths.iter_mut().flat_map(|(path, item)| {
            [&mut item.get, &mut item.post, &mut item.delete]
                .into_iter()
                .flatten()
                .map(move |operation| (path, operation))
        });
        for (path, operation) in operations {
            let bodies: &[_] = if operation.request_body.is_some() { &OF_BODIES } else { &[] };
            for (status, description) in OF_ALL.iter().chain(bodies) {
                let schema = Some(Ref::from_schema_name("Problem"));
                let problem = Response::builder()
                    .description(*description)
                    .content(JSON, Content::new(schema));
                let responses = &mut operation.responses.responses;
                responses.entry((*status).into()).or_insert_with(|| problem.build().into());
            }
            if operation.request_body.is_some() {
                may_be_503(operation, NO_ROOM);
            }
            if !is_vital(path) {
                may_be_503(operation, CROWDED);
            }
            for response in operation.responses.responses.values_mut() {
                let RefOr::T(response) = response else { continue };
                let is_problem = |content: &RefOr<_>| matches!(content, RefOr::T(content) if names_problem(content));
                if response.content.get(JSON).is_some_and(is_problem)
                    && let Some(content) = response.content.shift_remove(JSON)
                {
                    response.content.insert("application/problem+json".into(), content);
                }
            }
        }
    }
}

/// Adds a reason why a call may be answered with 503.
fn may_be_503(operation: &mut Operation, reason: &str) {
    match operation.responses.responses.get_mut("503") {
        Some(RefOr::T(response)) => {
            response.description = format!("{}; {reason}", response.description);
        }
        _ => {
            let content = Content::new(Some(Ref::from_schema_name("Problem")));
            let response = Response::builder().description(reason).content(JSON, content).build();
            operation.responses.responses.insert("503".into(), response.into());
        }
    }
}

const NO_ROOM: &str =
    "`too-many-bodies`: the bodies of other calls take all of `limits.body_bytes`";
const CROWDED: &str = "`too-many-connections`: all connections have a call that is being served";
const JSON: &str = "application/json";
/// The problems that every call may be answered with.
const OF_ALL: [(&str, &str); 3] = [
    ("400", "`forged-header`: a header that only a node may send"),
    ("403", "`foreign-origin`: a web page of another origin sent it"),
    ("421", "`unknown-host`: the coordinator is not known by this name"),
];
/// The problems that every call with a body may be answered with.
const OF_BODIES: [(&str, &str); 2] = [
    ("408", "`request-timeout`: the body did not come in time"),
    ("415", "`not-json`: a browser sent it without `content-type: application/json`"),
];

/// Links a grant and a session to the calls that take their fields.
struct Links;

impl Modify for Links {
    fn modify(&self, spec: &mut Spec) {
        let proof = json!({ "key": "$response.body#/key", "lease_id": "$response.body#/lease_id" });
        let token = json!({ "key": "$response.body#/key", "token": "$response.body#/token" });
        let acquire =
            ["heartbeat", "release", "transfer"].map(|call| (call, with_body(call, &proof)));
        add(spec, "/v1/acquire", "200", acquire);
        let get = Link::builder().operation_id("get_lease").parameter("key", "$response.body#/key");
        let about = [("check", with_body("check", &token)), ("get_lease", get.build())];
        add(spec, "/v1/acquire", "200", about);
        let of_id = |call| {
            let link = Link::builder().operation_id(call);
            (call, link.parameter("id", "$response.body#/id").build())
        };
        let calls = ["heartbeat_session", "drain_session", "get_session", "close_session"];
        add(spec, "/v1/sessions", "201", calls.map(of_id));
        let under = json!({ "session": "$response.body#/id", "owner": "$response.body#/owner" });
        let takes = ["acquire", "acquire_any"].map(|call| (call, with_body(call, &under)));
        add(spec, "/v1/sessions", "201", takes);
    }
}

fn with_body(call: &str, body: &serde_json::Value) -> Link {
    Link::builder().operation_id(call).request_body(Some(body.clone())).build()
}

fn add<const N: usize>(spec: &mut Spec, path: &str, status: &str, links: [(&str, Link); N]) {
    let operation = spec.paths.paths.get_mut(path).and_then(|item| item.post.as_mut());
    let response = operation.and_then(|operation| operation.responses.responses.get_mut(status));
    if let Some(RefOr::T(response)) = response {
        response.links.extend(links.map(|(name, link)| (name.to_owned(), RefOr::T(link))));
    }
}

fn names_problem(content: &Content) -> bool {
    let Some(RefOr::Ref(schema)) = &content.schema else { return false };
    schema.ref_location.ends_with("/Problem")
}

/// The document that `/openapi.json` serves and that the repository contains.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        api::limits::*,
        lease::{MAX_CHECKS, MAX_KEY_BYTES, MAX_LOCK_DELAY_MS, MAX_OWNER_BYTES, MAX_PIN_BYTES},
        manager::{MAX_CANDIDATES, MAX_REASON_BYTES, MAX_VALUE_BYTES},
    };

    /// The number that a schema says of one of its fields.
    fn said(schema: &Value, field: &str, keyword: &str) -> Vec<u64> {
        let forms = schema["oneOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
        let of = |form: &Value| form["properties"][field][keyword].as_u64();
        forms.iter().filter_map(of).collect()
    }

    #[test]
    fn schemas_name_the_bounds_that_are_checked() {
        let document = serde_json::to_value(document()).expect("the document is JSON");
        let schemas = &document["components"]["schemas"];
        let bounds: [(&str, &str, &str, u64); 30] = [
            ("AcquireBody", "key", "maxLength", MAX_KEY_BYTES as u64),
            ("AcquireBody", "owner", "maxLength", MAX_OWNER_BYTES as u64),
            ("AcquireBody", "value", "maxLength", MAX_VALUE_BYTES as u64),
            ("AcquireBody", "request_id", "maxLength", MAX_REQUEST_ID_BYTES as u64),
            ("AcquireAnyBody", "keys", "maxItems", MAX_CANDIDATES as u64),
            ("AcquireAnyBody", "prefix", "maxLength", MAX_KEY_BYTES as u64),
            ("AcquireAnyBody", "owner", "maxLength", MAX_OWNER_BYTES as u64),
            ("AcquireAnyBody", "request_id", "maxLength", MAX_REQUEST_ID_BYTES as u64),
            ("HeartbeatBody", "key", "maxLength", MAX_KEY_BYTES as u64),
            ("HeartbeatBody", "value", "maxLength", MAX_VALUE_BYTES as u64),
            ("ReleaseBody", "value", "maxLength", MAX_VALUE_BYTES as u64),
            ("TransferBody", "to", "maxLength", MAX_OWNER_BYTES as u64),
            ("TransferBody", "value", "maxLength", MAX_VALUE_BYTES as u64),
            ("CheckBody", "token", "maximum", MAX_TOKEN),
            ("BatchBody", "leases", "maxItems", MAX_BATCH as u64),
            ("RevokeBody", "reason", "maxLength", MAX_REASON_BYTES as u64),
            ("FenceSkipBody", "reason", "maxLength", MAX_REASON_BYTES as u64),
            ("ForgetBody", "reason", "maxLength", MAX_REASON_BYTES as u64),
            ("PinBody", "by", "maxLength", MAX_PIN_BYTES as u64),
            ("SessionBody", "lock_delay_ms", "maximum", MAX_LOCK_DELAY_MS.into()),
            ("SessionBody", "capacity", "maximum", MAX_CAPACITY.into()),
            ("SessionBody", "checks", "maxItems", MAX_CHECKS as u64),
            ("CheckSpec", "url", "maxLength", MAX_CHECK_URL_BYTES as u64),
            ("CheckSpec", "address", "maxLength", MAX_CHECK_ADDRESS_BYTES as u64),
            ("CheckSpec", "interval_ms", "minimum", *CHECK_INTERVAL_MS.start()),
            ("CheckSpec", "interval_ms", "maximum", *CHECK_INTERVAL_MS.end()),
            ("CheckSpec", "timeout_ms", "minimum", *CHECK_TIMEOUT_MS.start()),
            ("CheckSpec", "timeout_ms", "maximum", *CHECK_TIMEOUT_MS.end()),
            ("CheckSpec", "fail_after", "minimum", (*CHECK_FAIL_AFTER.start()).into()),
            ("CheckSpec", "fail_after", "maximum", (*CHECK_FAIL_AFTER.end()).into()),
        ];
        for (schema, field, keyword, bound) in bounds {
            let said = said(&schemas[schema], field, keyword);
            let all = !said.is_empty() && said.iter().all(|said| *said == bound);
            assert!(all, "{schema}.{field}: {keyword} is {said:?}, and {bound} is checked");
        }
    }

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
}
