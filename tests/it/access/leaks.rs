//! What a caller may not read is in no byte of any answer.

use serde_json::{Value, json};

use super::{
    cast::{Guarded, principal},
    rows::rows,
};
use crate::support::{clock::eventually, harness::Connection};

/// In names and values of what only `secretary` may read.
const CANARY: &str = "canary";

const POLICIES: &str = r#"
[[policy]]
prefix = "canary/"
pool = "canary-pool"

[[policy]]
prefix = "open/"
pool = "open-pool"
"#;

fn hidden(of: &str, text: &str) {
    assert!(!text.contains(CANARY), "{of}: {text}");
}

#[tokio::test]
async fn no_key_outside_the_right_to_read_is_in_any_answer() {
    let every =
        r#"{ verb = ["hold", "read", "check", "admin"], prefix = "" }, { verb = "observe" }"#;
    let blind = r#"{ verb = ["read", "check"], prefix = "open/" }, { verb = ["hold", "admin"], prefix = "" }"#;
    let cast = [principal("secretary", every), principal("blind", blind)];
    let config = tempfile::tempdir().expect("a directory");
    let file = config.path().join("access.toml");
    super::cast::write(&file, &cast);
    let settings = format!("auth.file = {:?}\n{POLICIES}", file.display().to_string());
    let settings = settings.replacen("auth.file = ", "[auth]\nfile = ", 1);
    let guarded = Guarded::of(crate::support::harness::Server::configured(&settings), file, config);
    let mut stream = Connection::open(guarded.server.addr).await;
    stream.send("GET", "/v1/events", &[("Authorization", "Bearer blind")], b"").await;
    assert_eq!(stream.head().await.expect("a head").0, 200);
    for n in 0..30 {
        for place in ["open", "canary"] {
            let key = format!("{place}/{n}");
            let body = json!({ "key": key, "owner": format!("{place}-worker"), "ttl_ms": 60_000, "value": place });
            guarded.post("secretary", "/v1/acquire", &body).await.ok();
        }
    }
    let session = json!({ "owner": "canary-worker", "ttl_ms": 60_000, "pool": "canary-pool" });
    assert_eq!(guarded.post("secretary", "/v1/sessions", &session).await.status, 201);
    // Lists, page by page: full pages, and no position names another key.
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let reply = guarded.get("blind", &format!("/v1/leases?limit=7{after}")).await;
        hidden("a list", &reply.text());
        let page = reply.ok();
        let leases = page["leases"].as_array().expect("leases").clone();
        assert!(leases.len() == 7 || page["next"].is_null(), "a page is full, or the last: {page}");
        keys.extend(leases.iter().map(|lease| lease["key"].as_str().expect("a key").to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(keys.len(), 30, "{keys:?}");
    // Refusals of calls for keys that may be held, and not read.
    for key in ["canary/1", "open/1"] {
        let body = json!({ "key": key, "owner": "other", "ttl_ms": 1000 });
        let reply = guarded.post("blind", "/v1/acquire", &body).await;
        let problem = reply.problem(409, "held");
        let told = problem["lease"]["owner"].as_str();
        assert_eq!(told.is_some(), key.starts_with("open"), "{problem}");
        hidden("a refusal", &reply.text().replace("\"canary/1\"", ""));
    }
    // Every operation that reads, with and without filters that would match.
    for row in rows() {
        if row.method == "get" {
            let path = row.target();
            hidden(&path, &guarded.get("blind", &path).await.text());
        }
    }
    let begin = guarded.server_cursor("secretary").await;
    for path in [
        "/v1/leases?prefix=c",
        "/v1/leases?pool=canary-pool&owner=canary-worker",
        "/v1/sessions",
        "/v1/pools",
        "/v1/pools/open-pool",
        "/v1/pools/other",
        &format!("/v1/events?format=json&after={begin}"),
    ] {
        let text = guarded.get("blind", path).await.text();
        hidden(path, &text.replace("canary-pool", "").replace("canary-worker", ""));
    }
    // The stream, which was open before all of this.
    let mut heard = String::new();
    eventually("the stream has the last change", async || {
        if let Ok(Some(chunk)) = stream.chunk().await {
            heard.push_str(&String::from_utf8_lossy(&chunk));
        }
        heard.contains("open/29")
    })
    .await;
    hidden("the stream", &heard);
    let _: Value = guarded.get("secretary", "/v1/leases/canary/1").await.ok();
}
