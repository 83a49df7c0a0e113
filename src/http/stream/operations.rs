//! The operations that a stream takes: those of the API document whose answers are JSON.

use std::collections::BTreeMap;

use actix_web::http::Method;
use serde_json::Value;

use crate::{
    api::Code,
    http::{
        answer::Problem,
        caller::{Pace, keeps, pace},
        percent::percent_encode,
    },
};

/// An operation of the API document.
#[derive(Debug)]
pub struct Operation {
    /// Its `operationId`.
    pub name: &'static str,
    pub method: Method,
    /// Its path, with the names of parameters in braces.
    pub path: &'static str,
}

/// The parameters of a call, in its path and in its query.
pub type Parameters = BTreeMap<String, Value>;

/// The operation that follows ownership changes. Its answer is that of [`EVENTS`].
pub const WATCH: &str = "watch";
/// The operation that follows them no longer.
pub const UNWATCH: &str = "unwatch";
/// The operation that gives up a call in flight.
pub const CANCEL: &str = "cancel";
/// The operation that reads ownership changes, a page for each call.
pub const EVENTS: &str = "events";

macro_rules! operations {
    ($($name:literal $method:ident $path:literal;)*) => {
        /// Every operation that a stream takes, besides [`WATCH`], [`UNWATCH`] and [`CANCEL`].
        pub static OPERATIONS: &[Operation] =
            &[$(Operation { name: $name, method: Method::$method, path: $path }),*];
    };
}

operations! {
    "heartbeat" POST "/v1/heartbeat";
    "heartbeats" POST "/v1/heartbeats";
    "heartbeat_session" POST "/v1/sessions/{id}/heartbeat";
    "acquire" POST "/v1/acquire";
    "acquire_all" POST "/v1/acquire-all";
    "acquire_any" POST "/v1/acquire-any";
    "release" POST "/v1/release";
    "releases" POST "/v1/releases";
    "transfer" POST "/v1/transfer";
    "check" POST "/v1/check";
    "get_lease" GET "/v1/leases/{key}";
    "list_leases" GET "/v1/leases";
    "open_session" POST "/v1/sessions";
    "get_session" GET "/v1/sessions/{id}";
    "list_sessions" GET "/v1/sessions";
    "drain_session" POST "/v1/sessions/{id}/drain";
    "close_session" DELETE "/v1/sessions/{id}";
    "list_pools" GET "/v1/pools";
    "get_pool" GET "/v1/pools/{pool}";
    "plan_pool" GET "/v1/pools/{pool}/plan";
    "get_assignment" GET "/v1/pools/{pool}/assignment";
    "events" GET "/v1/events";
    "info" GET "/v1/info";
    "nodes" GET "/v1/nodes";
    "status" GET "/v1/status";
    "status_series" GET "/v1/status/series";
    "top" GET "/v1/top";
    "lease_history" GET "/v1/history";
    "revoke" POST "/v1/admin/revoke";
    "pin" POST "/v1/admin/pin";
    "unpin" POST "/v1/admin/unpin";
    "fence_skip" POST "/v1/admin/fence-skip";
    "fence_retry" POST "/v1/admin/fence-retry";
    "forget_keys" POST "/v1/admin/forget";
    "drain_owner" POST "/v1/admin/drain";
    "order_pool" POST "/v1/admin/pool";
    "order_access" POST "/v1/admin/access";
    "list_revocations" GET "/v1/revocations";
}

/// The operation with this name.
///
/// # Errors
/// There is none.
pub fn named(name: &str) -> Result<&'static Operation, Problem> {
    let found = OPERATIONS.iter().find(|operation| operation.name == name);
    found.ok_or_else(|| {
        let detail =
            format!("{name:?} is not an operation that a stream takes; see docs/stream.md");
        Problem::of(Code::NoSuchPath, detail)
    })
}

/// The rate to which a call of this operation is charged. A stream has no probes, so each call costs something, also that
/// of an operation that there is not.
pub fn pace_of(name: &str) -> Pace {
    let found = named(name).ok().and_then(|operation| pace(&operation.method, operation.path));
    found.unwrap_or(Pace::Other)
}

impl Operation {
    /// Whether it keeps or ends leases, so that others depend on it.
    pub fn keeps(&self) -> bool {
        keeps(self.path)
    }

    /// The path and the query that name the parameters.
    ///
    /// # Errors
    /// A parameter is neither a text, nor a number, nor a truth value; or one of the path is missing.
    pub fn target(&self, mut parameters: Parameters) -> Result<String, Problem> {
        let mut target = String::with_capacity(self.path.len() + 64);
        let mut rest = self.path;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            target.push_str(before);
            let given = parameters.remove(name).ok_or_else(|| missing(name))?;
            percent_encode(&text_of(name, &given)?, name == "key", &mut target);
            rest = after;
        }
        target.push_str(rest);
        if self.name == EVENTS {
            // A stream within the stream would have no end.
            parameters.entry("format".to_owned()).or_insert_with(|| "json".into());
            if parameters["format"] != "json" {
                return Err(Problem::field("format", "must be json in a stream"));
            }
        }
        let mut sign = '?';
        for (name, given) in parameters {
            target.push(sign);
            sign = '&';
            percent_encode(&name, false, &mut target);
            target.push('=');
            percent_encode(&text_of(&name, &given)?, false, &mut target);
        }
        Ok(target)
    }
}

fn missing(name: &str) -> Problem {
    Problem::malformed(format!("missing parameter `{name}`"), Some(name.to_owned()))
}

/// The text of a parameter.
fn text_of(name: &str, given: &Value) -> Result<String, Problem> {
    match given {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(is) => Ok(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            let detail = format!("the parameter {name} is no text, number or truth value");
            Err(Problem::malformed(detail, Some(name.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// Whose answers are no JSON, or which a stream cannot have within itself.
    const BY_HTTP_ALONE: [&str; 5] = ["stream", "follow_assignment", "livez", "readyz", "metrics"];

    fn parameters(given: Value) -> Parameters {
        serde_json::from_value(given).expect("an object")
    }

    fn target(name: &str, given: Value) -> Result<String, &'static str> {
        let operation = named(name).expect("an operation");
        operation.target(parameters(given)).map_err(|problem| problem.code)
    }

    #[test]
    fn a_stream_takes_the_operations_of_the_document() {
        let document: Value =
            serde_json::from_str(include_str!("../../../openapi.json")).expect("JSON");
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("operations") {
                let name = operation["operationId"].as_str().expect("an id");
                described.insert(format!("{name} {method} {path}"));
            }
        }
        described.retain(|it| !BY_HTTP_ALONE.contains(&it.split(' ').next().unwrap_or_default()));
        let method = |it: &Operation| it.method.as_str().to_lowercase();
        let taken: BTreeSet<String> =
            OPERATIONS.iter().map(|it| format!("{} {} {}", it.name, method(it), it.path)).collect();
        assert_eq!(taken, described);
        assert_eq!(taken.len(), OPERATIONS.len(), "no operation is there twice");
        assert!([WATCH, UNWATCH, CANCEL].iter().all(|own| named(own).is_err()));
    }

    /// The page lists them by hand.
    #[test]
    fn the_page_names_every_operation() {
        let page = include_str!("../../../docs/stream.md");
        let names =
            OPERATIONS.iter().map(|operation| operation.name).chain([WATCH, UNWATCH, CANCEL]);
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn parameters_go_into_the_path_and_the_query() {
        let id = "0".repeat(64);
        let beat = format!("/v1/sessions/{id}/heartbeat");
        for (name, given, expected) in [
            ("heartbeat_session", json!({ "id": id }), Ok(beat.as_str())),
            (
                "get_lease",
                json!({ "key": "a/b c%", "gate": 1 }),
                Ok("/v1/leases/a/b%20c%25?gate=1"),
            ),
            ("get_pool", json!({ "pool": "a/b" }), Ok("/v1/pools/a%2Fb")),
            (
                "list_leases",
                json!({ "prefix": "ä&", "limit": 5 }),
                Ok("/v1/leases?limit=5&prefix=%C3%A4%26"),
            ),
            ("info", json!({}), Ok("/v1/info")),
            ("events", json!({ "after": "0" }), Ok("/v1/events?after=0&format=json")),
            ("events", json!({ "format": "sse" }), Err("invalid-field")),
            ("get_session", json!({}), Err("malformed-request")),
            ("get_session", json!({ "id": [] }), Err("malformed-request")),
        ] {
            assert_eq!(target(name, given), expected.map(str::to_owned), "{name}");
        }
    }

    #[test]
    fn what_keeps_and_ends_leases_is_known() {
        let keeping = OPERATIONS.iter().filter(|it| it.keeps()).map(|it| it.name);
        let expected = ["heartbeat", "heartbeats", "heartbeat_session", "release", "releases"];
        assert_eq!(keeping.collect::<Vec<_>>(), expected);
        let paced = OPERATIONS.iter().map(|it| it.name).filter(|name| pace_of(name) == Pace::Keeps);
        let expected = [&expected[..], &["close_session"]].concat();
        assert_eq!(paced.collect::<Vec<_>>(), expected);
        for name in [WATCH, UNWATCH, CANCEL, "heartbeat_", ""] {
            assert_eq!(pace_of(name), Pace::Other, "{name}");
        }
    }
}
