//! Web pages in the browser of somebody who can reach the coordinator, and who listens beyond this machine.

use serde_json::{Value, json};

use crate::support::harness::{Connection, Server, process::Server as Process};

const EVIL: (&str, &str) = ("Origin", "https://evil.example");
const TEXT: (&str, &str) = ("Content-Type", "text/plain");
const BROWSER: (&str, &str) = ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)");

#[tokio::test]
async fn a_foreign_page_revokes_nothing_and_reads_nothing() {
    let server = Server::start();
    let grant = server.acquire("db/primary", "w", 60_000).await;
    let host = server.addr.to_string();
    let revoke = json!({ "key": "db/primary", "reason": "csrf", "immediately": true }).to_string();
    let session = json!({ "owner": "e", "ttl_ms": 60_000 }).to_string();
    // What was refused unread ends its connection.
    let call = async |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        Connection::open(server.addr).await.call(method, path, headers, body).await
    };
    for (path, body) in [("/v1/admin/revoke", &revoke), ("/v1/sessions", &session)] {
        let headers = [("Host", host.as_str()), EVIL, TEXT];
        let reply = call("POST", path, &headers, body.as_bytes()).await;
        assert!(
            reply.problem(403, "foreign-origin")["detail"]
                .as_str()
                .unwrap()
                .contains("evil.example")
        );
        // A page whose browser does not say whose it is.
        let headers = [("Host", host.as_str()), BROWSER, TEXT];
        let reply = call("POST", path, &headers, body.as_bytes()).await;
        assert!(
            reply.problem(415, "not-json")["detail"].as_str().unwrap().contains("application/json")
        );
    }
    let reply = call("GET", "/v1/leases", &[("Host", "evil.example:7373")], b"").await;
    assert!(
        reply.problem(421, "unknown-host")["detail"].as_str().unwrap().contains("server.hosts")
    );
    let image =
        [("Host", host.as_str()), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")];
    for path in ["/v1/leases", "/v1/events", "/metrics", "/nowhere"] {
        call("GET", path, &image, b"").await.problem(403, "foreign-origin");
    }
    server.post("/v1/heartbeat", &grant.proof()).await.ok();
    let sessions = server.get("/v1/sessions").await.ok();
    assert_eq!(sessions["sessions"], json!([]));
}

#[tokio::test]
async fn the_own_pages_curl_and_configured_names_are_served() {
    let server = Server::with(&["server.hosts=tenure.corp.example, *.svc.cluster.local"]);
    let host = server.addr.to_string();
    let own = format!("http://{host}");
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000, "reclaim": true }).to_string();
    let mut connection = Connection::open(server.addr).await;
    let curl = ("Content-Type", "application/x-www-form-urlencoded");
    let served: [&[(&str, &str)]; 5] = [
        &[("Host", &host), ("User-Agent", "curl/8.14.1"), curl],
        &[("Host", &host), BROWSER, ("Origin", &own), ("Sec-Fetch-Site", "same-origin")],
        &[("Host", "tenure.corp.example"), ("Origin", "https://tenure.corp.example"), BROWSER],
        &[("Host", "tenure.default.svc.cluster.local:7373")],
        // A proxy that calls it by its address, for pages of its own name.
        &[("Host", &host), ("Origin", "https://tenure.corp.example"), BROWSER],
    ];
    for headers in served {
        connection.call("POST", "/v1/acquire", headers, body.as_bytes()).await.ok();
    }
    let link = [
        ("Host", host.as_str()),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    assert_eq!(connection.call("GET", "/", &link, b"").await.status, 200, "a link from a wiki");
}

#[tokio::test]
async fn pages_are_framed_by_nobody_and_secrets_are_not_kept() {
    let server = Server::start();
    for path in ["/", "/docs/", "/assets/main.js", "/docs/swagger-ui-bundle.js"] {
        let page = server.get(path).await;
        let policy = page.header("content-security-policy").expect("a policy");
        let of = |name: &str| policy.split(';').find_map(|one| one.trim().strip_prefix(name));
        assert_eq!(of("frame-ancestors "), Some("'none'"), "{policy}");
        let scripts = of("script-src ").or_else(|| of("default-src "));
        assert_eq!(scripts, Some("'self'"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"), "{path}");
    }
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 60_000 });
    let grant = server.post("/v1/acquire", &body).await;
    assert_eq!((grant.status, grant.header("cache-control")), (200, Some("no-store")));
    let session = server.post("/v1/sessions", &json!({ "owner": "w", "ttl_ms": 60_000 })).await;
    assert_eq!((session.status, session.header("cache-control")), (201, Some("no-store")));
    let held =
        server.post("/v1/acquire", &json!({ "key": "k", "owner": "x", "ttl_ms": 60_000 })).await;
    let empty = server.post("/v1/acquire", &json!({})).await;
    let missing = server.get("/v1/leases/none").await;
    let unmatched = server.get("/none").await;
    let answers = [(409, held), (400, empty), (404, missing), (404, unmatched)];
    for (status, answer) in answers {
        assert_eq!((answer.status, answer.header("cache-control")), (status, Some("no-store")));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    for path in ["/metrics", "/v1/leases", "/v1/info", "/openapi.json"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

#[tokio::test]
async fn what_only_nodes_may_say_is_believed_of_nobody_else() {
    let server = Server::start();
    server.acquire("k", "w", 60_000).await;
    let revoke = json!({ "key": "k", "reason": "r", "immediately": true }).to_string();
    let said = [
        ("x-tenure-forwarded-for", "10.0.0.1 (alice@ops, CHG-4711)"),
        ("x-tenure-forwarded", "http://127.0.0.1:1"),
        ("X-Tenure-Forwarded", "v1.00.1.00.00"),
        ("x-tenure-part", "1"),
        ("x-tenure-place", "1"),
        ("x-tenure-waited-ms", "60000"),
    ];
    for header in said {
        let mut connection = Connection::open(server.addr).await;
        let reply = connection.call("POST", "/v1/admin/revoke", &[header], revoke.as_bytes()).await;
        reply.problem(400, "forged-header");
    }
    server.call("POST", "/v1/admin/revoke", revoke.as_bytes()).await.ok();
    let events = server.events_of("k").await;
    assert_eq!(events[1]["data"]["actor"], "127.0.0.1", "{events:?}");
}

#[tokio::test]
async fn an_address_that_others_reach_is_refused_until_that_is_said_to_be_meant() {
    let dir = tempfile::tempdir().expect("a directory");
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let listen = format!("server.listen={listen}");
        let ended = Process::refuse(dir.path(), &[&listen]);
        assert_eq!(ended.status.code(), Some(78), "{}", ended.said);
        for word in ["server.listen", "owns every lease", "server.accept_no_auth = true"] {
            assert!(ended.said.contains(word), "{word}: {}", ended.said);
        }
    }
    let sets = ["server.listen=0.0.0.0:0", "server.accept_no_auth=true"];
    let server = Server::with(&sets);
    let info: Value = server.get("/v1/info").await.ok();
    assert_eq!(info["store"], "embedded");
}
