//! Every operation of the API: what it needs, and which node answers it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// What decides about an operation, besides its verb.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum By {
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

/// Which node answers a call that enters at another node than the home node of its key or session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goes {
    /// The node where it enters. It is never forwarded, and has the rights that this node's file gives.
    Nowhere,
    /// The home node, and its answer is relayed.
    Home,
    /// The home node of each lease, with its part of the call.
    InParts,
    /// The node where it enters and all others.
    Everywhere,
}

use By::*;
use Goes::*;

/// An operation.
pub struct Row {
    pub method: &'static str,
    pub path: &'static str,
    /// The verb that it needs, and what else decides.
    pub verb: &'static str,
    pub by: By,
    /// Which node answers it.
    pub goes: Goes,
    /// What it is called with. [`KEY`], [`LEASE`] and [`SESSION`] stand for those of the caller.
    pub body: Value,
    /// What a caller with all rights is answered.
    pub served: u16,
    /// The code for a caller with all rights who shows what proves another principal's lease or session; `None` if the
    /// call shows no such thing.
    pub thief: Option<&'static str>,
}

/// Stands for a key below `in/`.
pub const KEY: &str = "in/k";
/// Stands for the id of its lease; by itself, it is nobody's.
pub const LEASE: &str = "00000000000000000000000000000000";
/// Stands for the id of a session; by itself, it is nobody's.
pub const SESSION: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Stands for the name of a pool.
pub const POOL: &str = "default";

/// Every operation but `/livez` and `/readyz`, which are open to everybody.
pub fn rows() -> Vec<Row> {
    let proof = json!({ "key": KEY, "lease_id": LEASE });
    let batch = json!({ "leases": [proof] });
    let acquire = json!({ "key": KEY, "owner": "w", "ttl_ms": 600_000, "reclaim": true });
    // The home node of the session answers. The key must be free.
    let any = json!({ "keys": [format!("{KEY}.any")], "owner": "w", "session": SESSION });
    let all =
        json!({ "keys": [{ "key": format!("{KEY}.all") }], "owner": "w", "session": SESSION });
    let session = json!({ "owner": "w", "ttl_ms": 600_000 });
    let reason = json!({ "key": KEY, "reason": "r" });
    let retry = reason.clone();
    let pin = json!({ "key": KEY, "by": "b" });
    let forget = json!({ "prefix": KEY, "reason": "r" });
    let unrevoke = json!({ "action": "unrevoke", "principal": "nobody", "reason": "r" });
    let order = json!({ "pool": "default", "action": "thaw", "reason": "r" });
    vec![
        post("/v1/acquire", "hold", KeyAndOwner, Home, acquire).thief("held"),
        post("/v1/acquire-all", "hold", KeyAndOwner, Home, all).thief("session-lost"),
        post("/v1/acquire-any", "hold", KeyAndOwner, Home, any).thief("session-lost"),
        post("/v1/heartbeat", "hold", Key, Home, proof.clone()).thief("lease-lost"),
        post("/v1/heartbeats", "hold", Batch, InParts, batch.clone()).thief("lease-lost"),
        post("/v1/release", "hold", Key, Home, proof.clone()).thief("not-holder"),
        post("/v1/releases", "hold", Batch, InParts, batch).thief("not-holder"),
        post("/v1/transfer", "hold", Key, Home, proof).thief("lease-lost"),
        post("/v1/check", "check", Key, Nowhere, json!({ "key": KEY, "token": 1 })),
        get("/v1/leases", "read", Entries, Nowhere),
        get("/v1/leases/{key}", "read", Key, Home),
        get("/v1/events", "read", Entries, Nowhere),
        // It is no upgrade. tests/it/stream has those that are.
        get("/v1/stream", "hold", Verb, Nowhere).answers(426),
        get("/v1/pools", "read", Entries, Nowhere),
        get("/v1/pools/{pool}", "read", Entries, Nowhere),
        get("/v1/pools/{pool}/plan", "read", Entries, Nowhere),
        get("/v1/pools/{pool}/assignment", "read", Entries, Nowhere),
        // Its cursor is none. A stream that is served has no end.
        get("/v1/pools/{pool}/assignment/changes", "read", Entries, Nowhere).answers(400),
        post("/v1/sessions", "hold", Owner, Nowhere, session).answers(201),
        get("/v1/sessions", "read", Entries, Nowhere),
        get("/v1/sessions/{id}", "read", Entries, Nowhere),
        Row { method: "delete", ..post("/v1/sessions/{id}", "hold", Verb, Home, Value::Null) }
            .thief("session-lost"),
        post("/v1/sessions/{id}/heartbeat", "hold", Verb, Home, Value::Null).thief("session-lost"),
        post("/v1/sessions/{id}/drain", "hold", Verb, Home, Value::Null).thief("session-lost"),
        post("/v1/admin/revoke", "admin", Key, Home, reason.clone()),
        post("/v1/admin/pin", "admin", Key, Home, pin.clone()),
        post("/v1/admin/unpin", "admin", Key, Home, pin),
        // No fence is pending.
        post("/v1/admin/fence-skip", "break", Key, Home, reason).answers(409),
        post("/v1/admin/fence-retry", "admin", Key, Home, retry),
        post("/v1/admin/forget", "admin", Key, Nowhere, forget),
        post("/v1/admin/pool", "admin", AllKeys, Nowhere, order),
        // Nothing of this name is revoked.
        post("/v1/admin/access", "access", Verb, Nowhere, unrevoke),
        get("/v1/revocations", "access", Verb, Nowhere),
        post("/v1/admin/drain", "admin", AllKeys, Everywhere, json!({ "owner": "w-drain" })),
        get("/v1/top", "read", Entries, Nowhere),
        get("/v1/history", "read", Key, Nowhere),
        get("/v1/info", "observe", Verb, Nowhere),
        get("/v1/status", "observe", Verb, Nowhere),
        get("/v1/status/series", "observe", Verb, Nowhere),
        get("/v1/nodes", "observe", Verb, Nowhere),
        get("/metrics", "observe", Verb, Nowhere),
    ]
}

fn post(path: &'static str, verb: &'static str, by: By, goes: Goes, body: Value) -> Row {
    Row { method: "post", path, verb, by, goes, body, served: 200, thief: None }
}

fn get(path: &'static str, verb: &'static str, by: By, goes: Goes) -> Row {
    Row { method: "get", ..post(path, verb, by, goes, Value::Null) }
}

impl Row {
    fn answers(self, served: u16) -> Self {
        Self { served, ..self }
    }

    fn thief(self, code: &'static str) -> Self {
        Self { thief: Some(code), ..self }
    }

    /// A path that can be called.
    pub fn target(&self) -> String {
        let path = self.path.replace("{key}", KEY).replace("{pool}", POOL).replace("{id}", SESSION);
        match &*path {
            "/v1/events" => format!("{path}?format=json"),
            changes if changes.ends_with("/assignment/changes") => format!("{path}?after=x"),
            "/v1/history" => format!("{path}?key={KEY}"),
            _ => path,
        }
    }

    /// The same path with a letter that is percent-encoded, for which there is no need.
    pub fn disguised(&self) -> String {
        let target = self.target();
        let at = if target.starts_with("/v1/") { 4 } else { 1 };
        format!("{}%{:02x}{}", &target[..at], target.as_bytes()[at], &target[at + 1..])
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

const VERBS: [&str; 8] = ["hold", "read", "check", "admin", "break", "probe", "observe", "access"];

/// The verbs that rows need.
pub fn verbs() -> BTreeSet<&'static str> {
    rows().iter().map(|row| row.verb).collect()
}

/// All rights but those with this verb.
pub fn all_but(verb: &str) -> String {
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
