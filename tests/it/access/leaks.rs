//! What a caller may not read is in no byte of any answer: of no body, and of no header.

use serde_json::{Value, json};

use super::{
    cast::{Guarded, call_at, principal, write},
    rows::{KEY, LEASE, POOL, SESSION, rows},
};
use crate::{
    nodes::pair::Pair,
    support::{
        clock::{eventually, soon},
        harness::{Connection, Grant, Reply, Talk},
    },
};

/// In the names of the keys, owners and values, and of the pool, that only `secretary` may read.
const CANARIES: [&str; 2] = ["canary", "flock"];
/// A key that `secretary` holds. `blind` may hold it and order its end, and may not read it.
const HELD: &str = "canary/1";
const WORKER: &str = "canary-worker";
const FLOCK: &str = "flock-pool";

const POLICIES: &str = r#"
[[policy]]
prefix = "canary/"
pool = "flock-pool"

[[policy]]
prefix = "open/"
pool = "open-pool"
"#;

fn cast() -> [String; 2] {
    let every =
        r#"{ verb = ["hold", "read", "check", "admin"], prefix = "" }, { verb = "observe" }"#;
    let blind = r#"{ verb = ["read", "check"], prefix = "open/" },
        { verb = ["hold", "admin", "break"], prefix = "" }, { verb = "observe" }"#;
    [principal("secretary", every), principal("blind", blind)]
}

/// Fails if an answer has a canary that is not in `named`: what the call named itself.
fn hidden(of: &str, reply: &Reply, named: &[&str]) {
    let headers = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let whole = headers.collect::<String>() + &reply.text();
    hidden_in(of, &whole, named);
}

fn hidden_in(of: &str, text: &str, named: &[&str]) {
    let left = named.iter().fold(text.to_owned(), |left, name| left.replace(name, ""));
    assert!(!CANARIES.iter().any(|canary| left.contains(canary)), "{of}: {text}");
}

async fn by_blind(url: &str, method: &str, path: &str, body: &Value) -> Reply {
    call_at(url, "blind", method, path, body).await
}

/// Takes keys, half of which `blind` may not read, and opens a session. Gives the session's digest.
async fn fill(url: &str, keys: usize, pool: Option<&str>) -> String {
    for n in 0..keys {
        for place in ["canary", "open"] {
            let body = json!({ "key": format!("{place}/{n}"), "owner": format!("{place}-worker"),
                               "ttl_ms": 600_000, "value": place });
            call_at(url, "secretary", "POST", "/v1/acquire", &body).await.ok();
        }
    }
    let mut session = json!({ "owner": WORKER, "ttl_ms": 600_000 });
    if let Some(pool) = pool {
        session["pool"] = pool.into();
        session["address"] = "http://canary.example:1".into();
        session["labels"] = json!({ "zone": "canary-zone" });
    }
    let opened = call_at(url, "secretary", "POST", "/v1/sessions", &session).await;
    assert_eq!(opened.status, 201, "{}", opened.text());
    opened.json()["digest"].as_str().expect("a digest").to_owned()
}

/// Every operation, called for what `blind` may not read, with and without a fault.
async fn search_all_answers(url: &str, digest: &str) {
    let about_canaries = |text: String| {
        let text = text.replace(KEY, HELD).replace(SESSION, &format!("{digest}{LEASE}"));
        let in_body = |pool: &str| format!("\"pool\":\"{pool}\"");
        let text = text.replace(&in_body(POOL), &in_body(FLOCK));
        text.replace(&format!("/{POOL}"), &format!("/{FLOCK}"))
    };
    for row in rows() {
        let method = row.method.to_uppercase();
        let plain = by_blind(url, &method, &row.target(), &row.body).await;
        // The names of pools are labels of the metrics.
        hidden(&row.name(), &plain, if row.path == "/metrics" { &[FLOCK] } else { &[] });
        let path = about_canaries(row.target());
        let body = match &row.body {
            Value::Null => Value::Null,
            body => serde_json::from_str(&about_canaries(body.to_string())).expect("JSON"),
        };
        let reply = by_blind(url, &method, &path, &body).await;
        hidden(&format!("{method} {path} {body}"), &reply, &[HELD, FLOCK]);
        if method != "GET" {
            for fault in [json!({}), json!({ "key": HELD }), json!([HELD])] {
                let reply = by_blind(url, &method, &path, &fault).await;
                hidden(&format!("{method} {path} {fault}"), &reply, &[HELD]);
            }
        }
    }
    for path in ["/", "/assets/main.js", "/docs/", "/openapi.json", "/livez", "/readyz", "/no"] {
        hidden(path, &by_blind(url, "GET", path, &Value::Null).await, &[]);
    }
}

/// Lists and histories, with filters that would match. What a filter names itself is not in the answer either.
async fn search_all_filters(url: &str, digest: &str) {
    for path in [
        "/v1/leases?prefix=c".to_owned(),
        format!("/v1/leases?prefix={HELD}"),
        format!("/v1/leases?key={HELD}"),
        format!("/v1/leases?after={HELD}&limit=1"),
        format!("/v1/leases?owner={WORKER}"),
        format!("/v1/leases?session={digest}"),
        "/v1/leases?state=held&limit=1".to_owned(),
        "/v1/leases?pool=nowhere".to_owned(),
        "/v1/leases?before=open/0&limit=1".to_owned(),
        "/v1/leases?before=zzz&limit=100".to_owned(),
        "/v1/top?prefix=c".to_owned(),
        "/v1/top?by=owners&window=60m&limit=100".to_owned(),
        "/v1/top?by=pools&window=1m".to_owned(),
        "/v1/top?cause=granted&limit=1".to_owned(),
        format!("/v1/sessions?owner={WORKER}"),
        "/v1/sessions?limit=1".to_owned(),
        "/v1/pools/nowhere".to_owned(),
        "/v1/events?format=json&pool=nowhere".to_owned(),
        format!("/v1/events?format=json&after=0&owner={WORKER}"),
        format!("/v1/events?format=json&after=0&prefix={HELD}"),
    ] {
        hidden(&path, &by_blind(url, "GET", &path, &Value::Null).await, &[]);
    }
    for body in [
        json!({ "owner": "o", "ttl_ms": 1000, "pool": "nowhere" }),
        json!({ "owner": "o", "ttl_ms": 1000, "prefix": "canary/1" }),
    ] {
        for path in ["/v1/sessions", "/v1/acquire-any"] {
            let reply = by_blind(url, "POST", path, &body).await;
            hidden(&format!("{path} {body}"), &reply, &[]);
        }
    }
}

/// The names in a list, or the keys of a history, page by page.
async fn pages(url: &str, path: &str, kind: &str, name: &str, mut after: String) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let reply = by_blind(url, "GET", &format!("{path}{after}"), &Value::Null).await;
        hidden(path, &reply, &[]);
        let page = reply.ok();
        let entries = page[kind].as_array().expect("a list");
        let names = entries.iter().map(|entry| entry[name].as_str().expect("a name").to_owned());
        found.extend(names);
        match page["next"].as_str() {
            // A history has a next page even at its end.
            Some(next) if !entries.is_empty() => after = format!("&after={next}"),
            _ => return found,
        }
    }
}

/// Every operation that a stream takes, called for what `blind` may not read.
async fn search_a_stream(guarded: &Guarded, digest: &str) {
    let headers = [("Authorization", "Bearer blind")];
    let mut talk = Talk::open_with(guarded.server.addr, &headers)
        .await
        .unwrap_or_else(|_| panic!("no stream"));
    let document: Value =
        serde_json::from_str(include_str!("../../../openapi.json")).expect("a document");
    let mut called = 0;
    for row in rows() {
        let operation = &document["paths"][row.path][row.method]["operationId"];
        let Some(op) = operation.as_str() else { continue };
        let params = json!({ "key": HELD, "pool": FLOCK, "id": digest });
        let params: serde_json::Map<String, Value> = params
            .as_object()
            .expect("an object")
            .iter()
            .filter(|(name, _)| row.path.contains(&format!("{{{name}}}")))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut body = row.body.clone();
        for (name, canary) in [("key", HELD), ("prefix", HELD), ("pool", FLOCK)] {
            if body[name].is_string() {
                body[name] = canary.into();
            }
        }
        let id = talk.begin_with(op, &params.into(), &body).await;
        let answer = talk.answer(id).await.to_string();
        called += 1;
        hidden_in(&format!("{op} {body} by a stream"), &answer, &[HELD, FLOCK]);
    }
    assert!(called > 30, "{called}");
}

/// A stream of `blind`.
async fn stream(guarded: &Guarded, query: &str) -> Connection {
    let mut stream = Connection::open(guarded.server.addr).await;
    let as_blind = [("Authorization", "Bearer blind")];
    stream.send("GET", &format!("/v1/events{query}"), &as_blind, b"").await;
    let (status, headers) = stream.head().await.expect("a head");
    assert_eq!(status, 200);
    hidden_in("the head of a stream", &format!("{headers:?}"), &[]);
    stream
}

/// What a stream says until it names this key.
async fn heard(stream: &mut Connection, last: &str) -> String {
    let mut heard = String::new();
    while !heard.contains(last) {
        let chunk = soon("more of the stream", stream.chunk()).await.expect("the stream goes on");
        heard.push_str(&String::from_utf8_lossy(&chunk.expect("the stream goes on")));
    }
    heard
}

#[tokio::test]
async fn no_key_outside_the_right_to_read_is_in_any_answer() {
    let guarded = Guarded::configured(&cast(), POLICIES, &[]);
    let url = format!("http://{}", guarded.server.addr);
    let mut live = stream(&guarded, "").await;
    let digest = fill(&url, 30, Some(FLOCK)).await;
    hidden_in("a stream", &heard(&mut live, "open/29").await, &[]);
    let mut replay = stream(&guarded, "?after=0").await;
    hidden_in("a replay", &heard(&mut replay, "open/29").await, &[]);
    // All that may be read is there, page by page.
    let leases = pages(&url, "/v1/leases?limit=7", "leases", "key", String::new()).await;
    assert_eq!(leases.len(), 30, "{leases:?}");
    let history = "/v1/events?format=json";
    let events = pages(&url, history, "events", "subject", "&after=0".to_owned()).await;
    assert_eq!(events.len(), 30, "{events:?}");
    // A refusal says of a key that may be read who holds it.
    let body = json!({ "key": "open/1", "owner": "other", "ttl_ms": 1000 });
    let problem = by_blind(&url, "POST", "/v1/acquire", &body).await.problem(409, "held");
    assert_eq!(problem["lease"]["owner"], "open-worker");
    search_all_filters(&url, &digest).await;
    search_a_stream(&guarded, &digest).await;
    search_all_answers(&url, &digest).await;
    call_at(&url, "secretary", "GET", "/v1/leases/canary/1", &Value::Null).await.ok();
}

#[tokio::test]
async fn who_hands_a_key_over_is_not_told_who_has_it_now() {
    let guarded = Guarded::configured(&cast(), POLICIES, &[]);
    let acquire = |owner: &str, wait_ms: u64| {
        json!({ "key": "canary/t", "owner": owner, "ttl_ms": 600_000, "wait_ms": wait_ms,
                "value": owner })
    };
    let held = Grant::of(&guarded.post("blind", "/v1/acquire", &acquire("o", 0)).await.ok());
    let wanted = acquire(WORKER, 60_000);
    let waiting = guarded.post("secretary", "/v1/acquire", &wanted);
    let transfer = async {
        eventually("somebody waits", async || {
            guarded.get("secretary", "/v1/leases/canary/t").await.ok()["waiters"] == 1
        })
        .await;
        guarded.post("blind", "/v1/transfer", &held.proof()).await
    };
    let (granted, transferred) = tokio::join!(waiting, transfer);
    assert_eq!(granted.ok()["owner"], WORKER);
    assert_eq!(transferred.ok()["lease"]["key"], "canary/t");
    hidden("a transfer", &transferred, &["canary/t", FLOCK]);
}

/// The other node asks the home node, and relays its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_it_in_an_answer_that_a_node_relays() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    write(&file, &cast());
    let auth = [format!("auth.file={}", file.display())];
    let pair = Pair::nats_with(&auth, &auth, "secretary", &[]).await;
    let digest = fill(&pair.a.url, 5, None).await;
    eventually("the other node knows the keys", async || {
        let listed = pair.b.get("/v1/leases").await;
        listed["leases"].as_array().is_some_and(|leases| leases.len() == 10)
    })
    .await;
    let read = by_blind(&pair.b.url, "GET", "/v1/leases/open/1", &Value::Null).await;
    assert_eq!(read.header("x-tenure-node"), Some(pair.a.url.as_str()), "{}", read.text());
    search_all_filters(&pair.b.url, &digest).await;
    search_all_answers(&pair.b.url, &digest).await;
}
