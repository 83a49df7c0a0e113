//! Each example of the document is a request that works, and the answer that it gets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    document::{Operation, examples, operations, text},
    generated,
    learned::Learned,
    schemas::Schemas,
};
use crate::support::{
    clock::{PATIENCE, now, sleep_ms},
    harness::{Server, Stream, percent},
};

/// All examples with an answer in JSON, in an order in which each finds what it needs: operation and name.
const STORY: [&str; 50] = [
    "livez/alive",
    "readyz/ready",
    "info/embedded",
    "nodes/one-node",
    // A lease of its own.
    "acquire/take",
    "status/calm",
    "status_series/minutes",
    "top/grants",
    "heartbeat/keep",
    "heartbeat/with-a-value",
    "check/current",
    "get_lease/gate",
    "release/with-a-value",
    "events/page",
    "lease_history/released",
    // Leases of a session.
    "open_session/member",
    "acquire/under-a-session",
    "acquire_any/fair-share",
    "heartbeat_session/keep",
    "heartbeat_session/loads",
    "heartbeat_session/labels",
    "get_session/member",
    "list_sessions/one",
    "list_leases/of-a-session",
    "list_pools/one",
    "get_pool/one-member",
    "get_assignment/one-key",
    "plan_pool/nothing",
    "order_pool/freeze",
    "order_pool/thaw",
    "revoke/in-time",
    "heartbeat_session/revoked",
    "drain_session/leave",
    "close_session/closed",
    // Several leases.
    "acquire_any/several",
    "acquire_all/both",
    "heartbeats/two-leases",
    "transfer/to-a-successor",
    "releases/two-leases",
    "forget_keys/jobs",
    // A lease that an administrator takes away.
    "acquire/wait",
    "open_session/plain",
    "pin/maintenance",
    "drain_owner/worker",
    "unpin/maintenance",
    "list_revocations/none",
    "order_access/unrevoke",
    "revoke/at-once",
    "fence_retry/none",
    "fence_skip/skip",
];

/// Any coordinator tells the story, but for its end: a fence that is not confirmed.
const CONFIG: &str = r#"
[[plugin]]
name = "power"
kind = "exec"
command = ["/bin/false"]
retries = 0

[[policy]]
prefix = "jobs/nightly"
fence = ["power"]
"#;

/// The story, as far as it was told.
struct Telling<'a> {
    server: &'a Server,
    schemas: Schemas<'a>,
    learned: Learned,
}

impl Telling<'_> {
    /// The path of an operation, with a query of the parameters that are wanted. All have the values of their examples.
    fn target(&self, operation: &Operation<'_>, wanted: impl Fn(&str) -> bool) -> String {
        let (mut path, mut query) = (operation.path.to_owned(), Vec::new());
        for parameter in operation.parameters() {
            let (name, example) = (text(&parameter["name"]), &parameter["example"]);
            let value = match self.learned.real(example) {
                Value::String(text) => percent(&text),
                other => other.to_string(),
            };
            if parameter["in"] == "path" {
                path = path.replace(&format!("{{{name}}}"), &value);
            } else if parameter["required"] == true || wanted(name) {
                query.push(format!("{name}={value}"));
            }
        }
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// Sends a request of the document. Its answer is the documented success.
    async fn ask(
        &self,
        operation: &Operation<'_>,
        target: &str,
        body: &[u8],
    ) -> Result<Value, String> {
        let reply = self.server.call(&operation.method, target, body).await;
        let success = operation.success().expect("an operation that can succeed");
        if reply.status != success.status {
            return Err(format!("{target}: {} {}", reply.status, reply.text()));
        }
        assert_eq!(reply.header("content-type"), Some("application/json"), "{target}");
        let answer = reply.json();
        let schema = &success.json().expect("an answer in JSON")["schema"];
        self.schemas.check(schema, &answer, target)?;
        Ok(answer)
    }

    /// Sends the request of an example. Its answer is that of the example.
    async fn tell(&mut self, operation: &Operation<'_>, example: &str) {
        let body = operation.body().map(|body| &body["examples"][example]["value"]);
        let body = body.map(|body| self.learned.real(body).to_string()).unwrap_or_default();
        let success = operation.success().expect("an operation that can succeed");
        let shown = &success.json().expect("an answer in JSON")["examples"][example]["value"];
        // A page ends before a key, or begins after one.
        let target = self.target(operation, |name| name != "before");
        let end = now() + PATIENCE;
        loop {
            let answer = self.ask(operation, &target, body.as_bytes()).await;
            let Err(why) = answer.and_then(|real| self.learned.compare(shown, &real)) else {
                return;
            };
            // Counts and digests may be late.
            let again = operation.may_be_repeated() && now() < end;
            assert!(again, "{}/{example}: {why}", operation.name);
            sleep_ms(20).await;
        }
    }

    /// Sends a query with each parameter alone, and one with none.
    async fn query_by_each(&self, operation: &Operation<'_>) {
        for alone in operation.query().chain([""]) {
            // Without it, the answer would not end.
            let target = self.target(operation, |name| name == alone || name == "format");
            self.ask(operation, &target, b"").await.expect("a query by one parameter");
        }
    }
}

/// The examples of the answers in JSON: operation and name.
fn told(operations: &[Operation<'_>]) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    for operation in operations {
        let success = operation.success();
        let content = success.as_ref().and_then(|success| success.json());
        let names = content.into_iter().flat_map(examples).map(|(name, _)| name);
        told.extend(names.map(|name| format!("{}/{name}", operation.name)));
    }
    told
}

#[tokio::test]
async fn the_examples_are_a_story_that_a_coordinator_tells() {
    let document = generated();
    let operations = operations(&document);
    assert_eq!(BTreeSet::from(STORY.map(str::to_owned)), told(&operations));
    let named = |name: &str| operations.iter().find(|one| one.name == name).expect("an operation");
    let server = Server::configured(CONFIG);
    let schemas = Schemas(&document);
    let mut telling = Telling { server: &server, schemas, learned: Learned::default() };
    for step in STORY {
        let (name, example) = step.split_once('/').expect("an operation and a name");
        let operation = named(name);
        telling.tell(operation, example).await;
        if operation.query().next().is_some() {
            telling.query_by_each(operation).await;
        }
    }

    // The two answers that are texts.
    let success = named("events").success().expect("a stream");
    let shown = text(&success.content["text/event-stream"]["examples"]["stream"]["value"]);
    let line = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
    let data: Value = serde_json::from_str(line("data: ")).expect("JSON");
    let shown = json!({ "id": line("id: "), "event": line("event: "), "data": data });
    let mut stream = Stream::open(&server, "after=0&prefix=shards%2F").await;
    let (id, event, data) = stream.event().await.expect("an event");
    let real = json!({ "id": id, "event": event, "data": data });
    assert_eq!(telling.learned.compare(&shown, &real), Ok(()));

    let success = named("metrics").success().expect("a text");
    let shown = text(&success.content["text/plain"]["examples"]["gauges"]["value"]);
    let metrics = server.get("/metrics").await.text();
    for line in shown.lines().filter(|line| !line.is_empty()) {
        let series =
            if line.starts_with('#') { line } else { line.rsplit_once(' ').expect("a value").0 };
        assert!(metrics.lines().any(|real| real.starts_with(series)), "{series}");
    }
}

/// Checks that each example of a content has a summary and fits the content's schema. Returns their names.
fn checked<'a>(schemas: &Schemas<'_>, content: &'a Value, at: &str) -> BTreeSet<&'a str> {
    let check = |(name, example): (&'a str, &'a Value)| {
        assert!(!text(&example["summary"]).is_empty(), "{at}: {name}");
        let at = format!("the example {name} of {at}");
        assert_eq!(schemas.check(&content["schema"], &example["value"], &at), Ok(()));
        name
    };
    examples(content).map(check).collect()
}

#[test]
fn each_body_answer_and_parameter_has_an_example_that_fits_its_schema() {
    let document = generated();
    let schemas = Schemas(&document);
    for operation in operations(&document) {
        let name = operation.name;
        for parameter in operation.parameters() {
            let at = format!("{name}, parameter {}", parameter["name"]);
            let example = parameter.get("example").unwrap_or_else(|| panic!("{at} has no example"));
            assert_eq!(schemas.check(&parameter["schema"], example, &at), Ok(()));
        }
        let mut answered = BTreeSet::new();
        for (kind, content) in operation.success().iter().flat_map(|success| success.content) {
            let names = checked(&schemas, content, &format!("{name}, {kind}"));
            assert!(!names.is_empty(), "{name}: the answer as {kind} has no example");
            answered.extend(names);
        }
        if let Some(body) = operation.body() {
            let asked = checked(&schemas, body, &format!("{name}, body"));
            assert_eq!(asked, answered, "{name}: each request has its answer");
            assert!(!asked.is_empty(), "{name}");
        }
    }
}

#[test]
fn refusals_that_a_caller_must_tell_apart_have_an_example_for_each_code() {
    let document = generated();
    let schemas = Schemas(&document);
    let mut seen = BTreeSet::new();
    for operation in operations(&document) {
        let telling = ["404", "409", "423"];
        for (status, answer) in operation.answers().filter(|(status, _)| telling.contains(status)) {
            let content = &answer["content"]["application/problem+json"];
            let at = format!("{}, {status}", operation.name);
            let names = checked(&schemas, content, &at);
            assert!(!names.is_empty(), "{at}");
            for (code, example) in examples(content) {
                let problem = &example["value"];
                assert_eq!(
                    (&problem["code"], problem["status"].to_string()),
                    (&json!(code), status.to_owned())
                );
                assert!(
                    text(&answer["description"]).contains(&format!("`{code}`")),
                    "{at}: {code}"
                );
            }
            seen.extend(names.into_iter().map(str::to_owned));
        }
    }
    assert!(seen.contains("held") && seen.contains("lease-lost") && seen.len() > 12, "{seen:?}");
}
