//! `POST /v1/release` and `POST /v1/releases`.

use serde_json::json;

use crate::support::harness::{Grant, Server, kinds};

#[tokio::test]
async fn a_release_frees_the_key_and_leaves_a_value() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    let body = grant.proof_and(json!({ "value": "done up to 12" }));
    assert_eq!(server.post("/v1/release", &body).await.ok(), json!({ "released": true }));
    let lease = server.lease("k").await;
    assert_eq!(lease["state"], "free");
    assert_eq!(lease["value"], "done up to 12");
    assert_eq!(lease["token"], grant.token, "the last one stays to be seen");
    assert!(lease["owner"].is_null());
}

#[tokio::test]
async fn a_release_again_is_no_error() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    server.release(&grant).await;
    let again = server.post("/v1/release", &grant.proof()).await.ok();
    assert_eq!(again, json!({ "released": false }));
    // Still, when somebody else holds the key since.
    let next = server.acquire("k", "w2", 60_000).await;
    let again = server.post("/v1/release", &grant.proof()).await.ok();
    assert_eq!(again, json!({ "released": false }));
    assert_eq!(server.post("/v1/heartbeat", &next.proof()).await.ok()["token"], next.token);
    assert_eq!(kinds(&server.events_of("k").await), ["granted", "released", "granted"]);
}

#[tokio::test]
async fn somebody_elses_lease_is_not_released() {
    let server = Server::start();
    let mine = server.acquire("mine", "w1", 60_000).await;
    let theirs = server.acquire("theirs", "w2", 60_000).await;
    let forged = Grant { key: theirs.key.clone(), ..mine };
    let problem = server.post("/v1/release", &forged.proof()).await.problem(409, "not-holder");
    assert_eq!(problem["lease"]["owner"], "w2");
    assert_eq!(server.lease("theirs").await["state"], "held");
    // Of a key that nobody holds, and of one never seen, there is nothing to release.
    let nowhere = Grant { key: "never".into(), ..forged };
    assert_eq!(server.post("/v1/release", &nowhere.proof()).await.ok()["released"], false);
}

#[tokio::test]
async fn a_value_that_is_too_long_releases_nothing() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 60_000).await;
    let body = grant.proof_and(json!({ "value": "v".repeat(16 * 1024 + 1) }));
    server.post("/v1/release", &body).await.bad_field("value");
    assert_eq!(server.lease("k").await["state"], "held");
}

#[tokio::test]
async fn a_reason_is_told_and_has_bounds() {
    let server = Server::start();
    for path in ["/v1/release", "/v1/transfer"] {
        let grant = server.acquire("k", "w", 60_000).await;
        for reason in [String::new(), "r".repeat(257), "two\nlines".into()] {
            let body = grant.proof_and(json!({ "reason": reason }));
            server.post(path, &body).await.bad_field("reason");
        }
        assert_eq!(server.lease("k").await["state"], "held", "{path}");
        let longest = "r".repeat(256);
        server.post(path, &grant.proof_and(json!({ "reason": longest }))).await.ok();
        let told = server.events_of("k").await.pop().expect("an event")["data"]["reason"].clone();
        assert!(told.as_str().is_some_and(|told| told.ends_with(&longest)), "{path}: {told}");
    }
}

#[tokio::test]
async fn a_batch_gets_a_verdict_per_lease() {
    let server = Server::start();
    let a = server.acquire("a", "w", 60_000).await;
    let b = server.acquire("b", "w", 60_000).await;
    let c = server.acquire("c", "other", 60_000).await;
    let forged = Grant { lease_id: a.lease_id.clone(), ..c };
    let leases =
        json!([a.proof(), forged.proof(), b.proof(), a.proof(), { "key": "a", "lease_id": "?" }]);
    let answer = server.post("/v1/releases", &json!({ "leases": leases })).await.ok();
    let results = answer["results"].as_array().expect("results");
    assert_eq!(results.len(), 5);
    assert_eq!(results[1]["code"], "not-holder");
    assert_eq!(results[1]["status"], 409);
    assert_eq!(results[2]["released"], true);
    assert_eq!(results[4]["status"], 400);
    // One of the two of `a` did it, and both are answered.
    let done = [&results[0]["released"], &results[3]["released"]];
    assert!(done.contains(&&json!(true)) && done.contains(&&json!(false)), "{answer}");
    assert_eq!(server.lease("c").await["state"], "held");
    assert_eq!(server.lease("b").await["state"], "free");
}
