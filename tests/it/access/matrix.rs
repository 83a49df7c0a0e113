//! Every operation of the API, called by whoever may not and by whoever may.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cast::{Guarded, acting_as, all_of, principal};
use crate::support::harness::Reply;

/// What decides about an operation, besides its verb.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The key, and nothing else.
    Key,
    /// The key and the owner.
    KeyAndOwner,
    /// The owner alone.
    Owner,
    /// All keys: a right to some of them is not enough.
    AllKeys,
    /// Each entry by its own key: the others are left out.
    Entries,
    /// Each lease of a batch by its own key.
    Batch,
    /// The verb alone.
    Verb,
}

/// An operation, the verb that it needs, what else decides, and a body.
pub struct Row {
    pub method: &'static str,
    pub path: &'static str,
    verb: &'static str,
    by: By,
    body: Value,
}

const NOBODYS: &str = "00000000000000000000000000000000";

/// A row for each operation. `{key}` stands for a key below `in/`.
pub fn rows() -> Vec<Row> {
    let row = |method, path, verb, by, body| Row { method, path, verb, by, body };
    let proof = json!({ "key": "in/k", "lease_id": NOBODYS });
    let batch = json!({ "leases": [proof] });
    let any = json!({ "keys": ["in/k"], "owner": "w", "ttl_ms": 1000 });
    vec![
        row(
            "post",
            "/v1/acquire",
            "hold",
            By::KeyAndOwner,
            json!({ "key": "in/k", "owner": "w", "ttl_ms": 1000 }),
        ),
        row("post", "/v1/acquire-any", "hold", By::KeyAndOwner, any),
        row("post", "/v1/heartbeat", "hold", By::Key, proof.clone()),
        row("post", "/v1/heartbeats", "hold", By::Batch, batch.clone()),
        row("post", "/v1/release", "hold", By::Key, proof.clone()),
        row("post", "/v1/releases", "hold", By::Batch, batch),
        row("post", "/v1/transfer", "hold", By::Key, proof),
        row("post", "/v1/check", "check", By::Key, json!({ "key": "in/k", "token": 1 })),
        row("get", "/v1/leases", "read", By::Entries, Value::Null),
        row("get", "/v1/leases/{key}", "read", By::Key, Value::Null),
        row("get", "/v1/events", "read", By::Entries, Value::Null),
        row("get", "/v1/pools", "read", By::Entries, Value::Null),
        row("get", "/v1/pools/{pool}", "read", By::Entries, Value::Null),
        row("post", "/v1/sessions", "hold", By::Owner, json!({ "owner": "w", "ttl_ms": 1000 })),
        row("get", "/v1/sessions", "read", By::Entries, Value::Null),
        row("get", "/v1/sessions/{id}", "read", By::Entries, Value::Null),
        row("delete", "/v1/sessions/{id}", "hold", By::Verb, Value::Null),
        row("post", "/v1/sessions/{id}/heartbeat", "hold", By::Verb, Value::Null),
        row("post", "/v1/sessions/{id}/drain", "hold", By::Verb, Value::Null),
        row("post", "/v1/admin/revoke", "admin", By::Key, json!({ "key": "in/k", "reason": "r" })),
        row("post", "/v1/admin/pin", "admin", By::Key, json!({ "key": "in/k", "by": "b" })),
        row("post", "/v1/admin/unpin", "admin", By::Key, json!({ "key": "in/k", "by": "b" })),
        row(
            "post",
            "/v1/admin/fence-skip",
            "break",
            By::Key,
            json!({ "key": "in/k", "reason": "r" }),
        ),
        row(
            "post",
            "/v1/admin/forget",
            "admin",
            By::Key,
            json!({ "prefix": "in/", "reason": "r" }),
        ),
        row("post", "/v1/admin/drain", "admin", By::AllKeys, json!({ "owner": "w" })),
        row("get", "/v1/info", "observe", By::Verb, Value::Null),
        row("get", "/v1/nodes", "observe", By::Verb, Value::Null),
        row("get", "/metrics", "observe", By::Verb, Value::Null),
    ]
}

impl Row {
    /// A path that can be called.
    pub fn target(&self) -> String {
        let id = NOBODYS.repeat(2);
        let path = self.path.replace("{key}", "in/k").replace("{pool}", "default");
        let path = path.replace("{id}", &id);
        if path == "/v1/events" { format!("{path}?format=json") } else { path }
    }

    async fn call(&self, guarded: &Guarded, token: &str) -> Reply {
        let method = self.method.to_uppercase();
        guarded.call(token, &method, &self.target(), &self.body).await
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

const VERBS: [&str; 7] = ["hold", "read", "check", "admin", "break", "probe", "observe"];

/// All rights but those with this verb.
fn all_but(verb: &str) -> String {
    let quoted = |verb: &&str| format!("{verb:?}");
    let of_keys: Vec<_> = VERBS[..5].iter().filter(|it| **it != verb).map(quoted).collect();
    let others: Vec<_> = VERBS[5..].iter().filter(|it| **it != verb).map(quoted).collect();
    let of_keys = of_keys.join(", ");
    format!(r#"{{ verb = [{of_keys}], prefix = "" }}, {{ verb = [{}] }}"#, others.join(", "))
}

#[test]
fn every_operation_has_a_row() {
    let document: Value =
        serde_json::from_str(include_str!("../../../openapi.json")).expect("a document");
    let paths = document["paths"].as_object().expect("paths");
    let all = paths.iter().flat_map(|(path, operations)| {
        let methods = operations.as_object().expect("operations").keys();
        methods.map(move |method| format!("{method} {path}"))
    });
    let open = ["get /livez", "get /readyz"];
    let all: BTreeSet<String> = all.filter(|name| !open.contains(&name.as_str())).collect();
    let rows: BTreeSet<String> = rows().iter().map(Row::name).collect();
    assert_eq!(all, rows);
}

#[tokio::test]
async fn each_operation_refuses_whoever_may_not_and_serves_whoever_may() {
    let mut cast = vec![
        principal("all", &all_of("")),
        principal("leaver", &all_of("")),
        principal("within", &all_of("in/")),
        principal("elsewhere", &all_of("out/")),
        acting_as("stranger", &all_of(""), "not-w"),
        format!("{}expires = 2020-01-31\n", principal("expired", &all_of(""))),
    ];
    cast.extend(VERBS.iter().map(|verb| principal(&format!("no-{verb}"), &all_but(verb))));
    let guarded = Guarded::start(&cast, &[]);
    for path in ["/livez", "/readyz"] {
        assert_eq!(guarded.get("", path).await.status, 200);
    }
    let unknown = guarded.get("garbage", "/v1/leases").await.problem(401, "unauthenticated");
    for row in rows() {
        let name = row.name();
        for token in ["", "garbage", "expired"] {
            let reply = row.call(&guarded, token).await;
            assert_eq!(reply.problem(401, "unauthenticated"), unknown, "{name} by {token:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
        let reply = row.call(&guarded, &format!("no-{}", row.verb)).await;
        let detail = reply.problem(403, "forbidden")["detail"].clone();
        assert!(detail.as_str().is_some_and(|it| it.contains(row.verb)), "{name}: {detail}");
        let reply = row.call(&guarded, "elsewhere").await;
        match row.by {
            By::Key | By::KeyAndOwner | By::AllKeys => drop(reply.problem(403, "forbidden")),
            By::Batch => assert_eq!(reply.ok()["results"][0]["status"], 403, "{name}"),
            By::Entries | By::Owner | By::Verb => assert_ne!(reply.status, 403, "{name}"),
        }
        let reply = row.call(&guarded, "stranger").await;
        let by_owner = matches!(row.by, By::Owner | By::KeyAndOwner);
        assert_eq!(reply.status == 403, by_owner, "{name} for another owner: {}", reply.text());
        for token in ["all", "within", "leaver"] {
            let reply = row.call(&guarded, token).await;
            let refused = token == "within" && row.by == By::AllKeys;
            assert_eq!([401, 403].contains(&reply.status), refused, "{name}: {}", reply.text());
        }
        // What is granted here must not be in the way of the next row.
        guarded
            .post(
                "all",
                "/v1/admin/revoke",
                &json!({ "key": "in/k", "reason": "r", "immediately": true }),
            )
            .await;
    }
    cast.retain(|it| !it.contains("leaver"));
    guarded.reload(&cast).await;
    for row in rows() {
        row.call(&guarded, "leaver").await.problem(401, "unauthenticated");
    }
}

#[tokio::test]
async fn an_immediate_revocation_needs_the_right_to_break_and_a_check_the_right_to_probe() {
    let cast = [
        principal("admin", r#"{ verb = "admin", prefix = "" }"#),
        principal("breaker", r#"{ verb = "break", prefix = "" }"#),
        principal("holder", r#"{ verb = "hold", prefix = "" }"#),
        principal("prober", r#"{ verb = "hold", prefix = "" }, { verb = "probe" }"#),
    ];
    let guarded = Guarded::start(&cast, &["checks.allow=auto"]);
    let held = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    guarded.post("holder", "/v1/acquire", &held).await.ok();
    let now = json!({ "key": "k", "reason": "r", "immediately": true });
    let graceful = json!({ "key": "k", "reason": "r" });
    guarded.post("admin", "/v1/admin/revoke", &now).await.problem(403, "forbidden");
    guarded.post("breaker", "/v1/admin/revoke", &graceful).await.problem(403, "forbidden");
    guarded.post("admin", "/v1/admin/revoke", &graceful).await.ok();
    guarded.post("breaker", "/v1/admin/revoke", &now).await.ok();
    let check = json!({ "type": "tcp", "address": "127.0.0.1:9", "interval_ms": 1000, "timeout_ms": 100, "fail_after": 3 });
    let session = json!({ "owner": "w", "ttl_ms": 60_000, "checks": [check] });
    guarded.post("holder", "/v1/sessions", &session).await.problem(403, "forbidden");
    assert_eq!(guarded.post("prober", "/v1/sessions", &session).await.status, 201);
}
