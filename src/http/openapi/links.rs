//! Links from answers to the calls that take their fields.

use serde_json::json;
use utoipa::{
    Modify,
    openapi::{OpenApi as Spec, RefOr, link::Link},
};

/// Links a grant and a session to the calls that take their fields.
pub struct Links;

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
        let takes =
            ["acquire", "acquire_all", "acquire_any"].map(|call| (call, with_body(call, &under)));
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
