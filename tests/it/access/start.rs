//! What a coordinator needs to start, and the status page's cookie.

use serde_json::json;

use super::cast::{Guarded, all_of, principal};
use crate::support::harness::{Connection, Server};

#[test]
fn a_missing_or_faulty_access_file_ends_the_start_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("access.toml");
    let set = format!("auth.file={}", file.display());
    let ended = Server::refuse(dir.path(), &[&set]);
    assert_eq!(ended.status.code(), Some(78), "{}", ended.said);
    assert!(ended.said.contains("access.toml"), "{}", ended.said);
    let faults = "[[principal]]\nname = \"p\"\nmay = [{ verb = \"rule\", prefix = \"\" }]\n";
    super::cast::write(&file, &[faults.to_owned()]);
    let ended = Server::refuse(dir.path(), &[&set]);
    assert_eq!(ended.status.code(), Some(78), "{}", ended.said);
    assert!(ended.said.contains("access.toml:3") && ended.said.contains("rule"), "{}", ended.said);
}

#[tokio::test]
async fn the_page_gets_a_cookie_for_a_token_and_the_cookie_only_reads() {
    let reader = principal("reader", &all_of(""));
    let expired = format!("{}expires = 2020-01-31\n", principal("expired", &all_of("")));
    let guarded = Guarded::start(&[reader.clone(), expired], &[]);
    assert_eq!(guarded.get("", "/").await.status, 200, "the page shows nothing by itself");
    for token in ["guess", "expired"] {
        let refused = guarded.post("", "/sign-in", &json!({ "token": token })).await;
        refused.problem(401, "unauthenticated");
    }
    let signed_in = guarded.post("", "/sign-in", &json!({ "token": "reader" })).await;
    assert_eq!(signed_in.status, 204);
    let set = signed_in.header("set-cookie").expect("a cookie").to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    let cookie = set.split(';').next().expect("a pair").to_owned();
    assert!(!cookie.contains("reader"), "the token is not in it: {cookie}");
    let stranger = guarded.get("", "/sign-in").await.ok();
    let nobody = json!({ "open": false, "name": null, "cookie": false, "may": {}, "may_keys": {} });
    assert_eq!(stranger, nobody);
    let call = async |method: &str, path: &str, cookie: &str, body: &[u8]| {
        let mut connection = Connection::open(guarded.server.addr).await;
        connection.call(method, path, &[("Cookie", &format!("a=b; {cookie}"))], body).await
    };
    for path in ["/v1/leases", "/v1/nodes", "/metrics", "/v1/info"] {
        assert_eq!(call("GET", path, &cookie, b"").await.status, 200, "{path}");
    }
    // The page has buttons for what this principal may do.
    let who = call("GET", "/sign-in", &cookie, b"").await.ok();
    assert_eq!((&who["open"], &who["name"]), (&json!(false), &json!("reader")));
    assert_eq!((&who["cookie"], &who["may"]["break"]), (&json!(true), &json!([""])));
    let body = json!({ "key": "k", "owner": "w", "ttl_ms": 1000 }).to_string();
    call("POST", "/v1/acquire", &cookie, body.as_bytes()).await.problem(401, "unauthenticated");
    // A stream does more than read.
    call("GET", "/v1/stream", &cookie, b"").await.problem(401, "unauthenticated");
    let forged = format!("{}x", &cookie[..cookie.len() - 1]);
    call("GET", "/v1/leases", &forged, b"").await.problem(401, "unauthenticated");
    guarded
        .reload(&[reader.replace(&super::cast::digest("reader"), &super::cast::digest("next"))])
        .await;
    call("GET", "/v1/leases", &cookie, b"").await.problem(401, "unauthenticated");
}
