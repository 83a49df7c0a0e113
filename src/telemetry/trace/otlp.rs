//! Spans as OTLP has them, in JSON.

use serde::{Deserialize, Serialize};

use super::finished::{Finished, Value};

/// The name under which the spans are made.
const SCOPE: &str = "tenure";
/// The flags of a span: its trace is recorded, and it is known whether its parent is of another program.
const SAMPLED: u32 = 0x1;
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// The status of a span that failed.
const ERROR: u8 = 2;

/// What all spans of a node have in common.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    /// The name of the service.
    pub service: String,
    /// The name of the node.
    pub node: String,
}

/// The body of a request with these spans.
pub(super) fn encode(resource: &Resource, spans: &[Finished]) -> Vec<u8> {
    let request = Request {
        resource_spans: [OfResource {
            resource: Attributes {
                attributes: vec![
                    attribute("service.name", &resource.service.as_str().into()),
                    attribute("service.version", &env!("CARGO_PKG_VERSION").into()),
                    attribute("service.instance.id", &resource.node.as_str().into()),
                ],
            },
            scope_spans: [OfScope {
                scope: Scope { name: SCOPE, version: env!("CARGO_PKG_VERSION") },
                spans: spans.iter().map(Span::of).collect(),
            }],
        }],
    };
    serde_json::to_vec(&request).expect("texts and numbers are JSON")
}

/// How many spans the collector rejected, by its answer.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let answer = serde_json::from_slice::<Answer>(answer).ok();
    let rejected = answer.and_then(|answer| answer.partial_success?.rejected_spans);
    match rejected {
        Some(Count::Number(number)) => number,
        Some(Count::Text(text)) => text.parse().unwrap_or(0),
        None => 0,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_spans: [OfResource<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfResource<'a> {
    resource: Attributes,
    scope_spans: [OfScope<'a>; 1],
}

#[derive(Serialize)]
struct Attributes {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct OfScope<'a> {
    scope: Scope,
    spans: Vec<Span<'a>>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Span<'a> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    flags: u32,
    name: &'a str,
    kind: u8,
    // Numbers of 64 bits are texts.
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Serialize)]
struct Status {
    code: u8,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: AnyValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum AnyValue {
    StringValue(Box<str>),
    IntValue(String),
}

impl<'a> Span<'a> {
    fn of(span: &'a Finished) -> Self {
        let remote = if span.remote { IS_REMOTE } else { 0 };
        Self {
            trace_id: format!("{:032x}", span.trace),
            span_id: format!("{:016x}", span.span),
            trace_state: span.state.as_deref(),
            parent_span_id: span.parent.map(|parent| format!("{parent:016x}")),
            flags: SAMPLED | HAS_IS_REMOTE | remote,
            name: &span.name,
            kind: span.kind as u8,
            start_time_unix_nano: span.from.to_string(),
            end_time_unix_nano: span.to.to_string(),
            attributes: span.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
            status: span.failed.then_some(Status { code: ERROR }),
        }
    }
}

fn attribute(key: &'static str, value: &Value) -> Attribute {
    let value = match value {
        Value::Text(text) => AnyValue::StringValue(text.clone()),
        Value::Number(number) => AnyValue::IntValue(number.to_string()),
    };
    Attribute { key, value }
}

/// What a collector answers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    partial_success: Option<PartialSuccess>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccess {
    rejected_spans: Option<Count>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Text(String),
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::telemetry::trace::finished::Kind;

    #[test]
    fn a_span_is_written_as_the_protocol_demands() {
        let span = Finished {
            trace: 0xab,
            span: 0xcd,
            parent: Some(0xef),
            remote: true,
            state: Some("a=b".into()),
            name: "POST /v1/acquire".into(),
            kind: Kind::Server,
            from: 1_700_000_000_000_000_001,
            to: 1_700_000_000_000_000_002,
            attributes: vec![("tenure.key", "k\"".into()), ("tenure.token", u64::MAX.into())],
            failed: true,
        };
        let first = Finished {
            parent: None,
            remote: false,
            state: None,
            failed: false,
            attributes: vec![("tenure.token", 7u64.into())],
            ..span.clone()
        };
        let resource = Resource { service: "tenure".into(), node: "n1".into() };
        let body: Json = serde_json::from_slice(&encode(&resource, &[span, first])).expect("JSON");
        let of_resource = &body["resourceSpans"][0];
        let named = json!({"key": "service.instance.id", "value": {"stringValue": "n1"}});
        assert_eq!(of_resource["resource"]["attributes"][2], named);
        let spans = &of_resource["scopeSpans"][0]["spans"];
        let expected = json!({
            "traceId": format!("{:032x}", 0xab),
            "spanId": format!("{:016x}", 0xcd),
            "traceState": "a=b",
            "parentSpanId": format!("{:016x}", 0xef),
            "flags": 0x301,
            "name": "POST /v1/acquire",
            "kind": 2,
            "startTimeUnixNano": "1700000000000000001",
            "endTimeUnixNano": "1700000000000000002",
            "attributes": [
                {"key": "tenure.key", "value": {"stringValue": "k\""}},
                {"key": "tenure.token", "value": {"stringValue": u64::MAX.to_string()}},
            ],
            "status": {"code": 2},
        });
        assert_eq!(spans[0], expected);
        assert_eq!(spans[1]["parentSpanId"], Json::Null);
        assert_eq!((&spans[1]["flags"], &spans[1]["status"]), (&json!(0x101), &Json::Null));
        assert_eq!(spans[1]["attributes"][0]["value"], json!({"intValue": "7"}));
    }

    #[test]
    fn what_a_collector_rejected_is_counted() {
        let of = |answer: &str| rejected(answer.as_bytes());
        assert_eq!((of(""), of("{}"), of("{\"partialSuccess\":{}}")), (0, 0, 0));
        assert_eq!(of("{\"partialSuccess\":{\"rejectedSpans\":\"3\"}}"), 3);
        assert_eq!(of("{\"partialSuccess\":{\"rejectedSpans\":4,\"errorMessage\":\"x\"}}"), 4);
    }
}
