//! Every operation of the API, called by whoever may not and by whoever may, at a node that is alone.

use serde_json::json;

use super::{
    cast::{Guarded, acting_as, all_of, all_of_key, principal},
    rows::{By, KEY, Row, all_but, rows, verbs},
};
use crate::support::harness::Reply;

impl Row {
    async fn call(&self, guarded: &Guarded, token: &str) -> Reply {
        let method = self.method.to_uppercase();
        guarded.call(token, &method, &self.target(), &self.body).await
    }
}

#[tokio::test]
async fn each_operation_refuses_whoever_may_not_and_serves_whoever_may() {
    let mut cast = vec![
        principal("all", &all_of("")),
        principal("leaver", &all_of("")),
        principal("within", &all_of("in/")),
        principal("elsewhere", &all_of("out/")),
        principal("one-key", &all_of_key(KEY)),
        // One key is no prefix: neither the beginning of the key nor what goes on after it.
        principal("beginning", &all_of_key("in/")),
        principal("longer", &all_of_key("in/k2")),
        acting_as("stranger", &all_of(""), "not-w"),
        format!("{}expires = 2020-01-31\n", principal("expired", &all_of(""))),
    ];
    cast.extend(verbs().iter().map(|verb| principal(&format!("no-{verb}"), &all_but(verb))));
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
        let (without, method) = (format!("no-{}", row.verb), row.method.to_uppercase());
        for path in [row.target(), row.disguised()] {
            let reply = guarded.call(&without, &method, &path, &row.body).await;
            let detail = reply.problem(403, "forbidden")["detail"].clone();
            assert!(detail.as_str().is_some_and(|it| it.contains(row.verb)), "{path}: {detail}");
        }
        for token in ["elsewhere", "beginning", "longer"] {
            let reply = row.call(&guarded, token).await;
            match row.by {
                By::Key | By::KeyAndOwner | By::AllKeys => drop(reply.problem(403, "forbidden")),
                By::Batch => assert_eq!(reply.ok()["results"][0]["status"], 403, "{name}"),
                By::Entries | By::Owner | By::Verb => assert_ne!(reply.status, 403, "{name}"),
            }
        }
        // These are about other keys, or all keys with a prefix.
        let others = ["/v1/acquire-any", "/v1/acquire-all", "/v1/admin/forget"].contains(&row.path);
        let refused = others || row.by == By::AllKeys;
        let reply = row.call(&guarded, "one-key").await;
        assert_eq!(
            [401, 403].contains(&reply.status),
            refused,
            "{name} by one-key: {}",
            reply.text()
        );
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
async fn a_right_to_one_key_is_for_its_permits_and_lists_have_nothing_else() {
    let cast = [principal("all", &all_of("")), principal("one", &all_of_key("g/lock"))];
    let settings = "[[policy]]\nprefix = \"g/\"\npool = \"g\"\npermits = 2\n";
    let guarded = Guarded::configured(&cast, settings, &[]);
    let acquire = |key: &str| json!({ "key": key, "owner": "w", "ttl_ms": 600_000 });
    let grant = guarded.post("one", "/v1/acquire", &acquire("g/lock")).await.ok();
    let key = grant["key"].as_str().expect("a permit").to_owned();
    assert!(["g/lock#1", "g/lock#2"].contains(&&*key), "{grant}");
    for other in ["g/lock2", "g/lock/1", "g/loc"] {
        guarded.post("all", "/v1/acquire", &acquire(other)).await.ok();
        guarded.post("one", "/v1/acquire", &acquire(other)).await.problem(403, "forbidden");
    }
    let all =
        json!({ "keys": [{ "key": "g/lock", "permits": 1 }], "owner": "w2", "ttl_ms": 600_000 });
    guarded.post("one", "/v1/acquire-all", &all).await.ok();
    let proof = json!({ "key": key, "lease_id": grant["lease_id"] });
    guarded.post("one", "/v1/heartbeat", &proof).await.ok();
    let check = json!({ "key": key, "token": grant["token"] });
    assert_eq!(guarded.post("one", "/v1/check", &check).await.ok()["current"], true);
    for path in [
        "/v1/leases",
        "/v1/leases?prefix=g/",
        "/v1/leases?prefix=g/lock%23",
        "/v1/leases?limit=1&after=g/loc",
    ] {
        let listed = guarded.get("one", path).await.ok();
        let leases = listed["leases"].as_array().expect("leases").clone();
        assert!(!leases.is_empty(), "{path}");
        for lease in leases {
            assert!(
                lease["key"].as_str().is_some_and(|it| it.starts_with("g/lock#")),
                "{path}: {lease}"
            );
        }
    }
    assert_eq!(
        guarded.get("one", "/v1/leases").await.ok()["leases"].as_array().expect("two").len(),
        2
    );
    let before = guarded.get("one", "/v1/leases?before=zzz&limit=100").await.ok();
    assert_eq!(before["leases"].as_array().expect("two").len(), 2);
    let events = guarded.get("one", "/v1/events?format=json&after=0").await.ok();
    let events = events["events"].as_array().expect("events").clone();
    assert!(events.len() == 2, "{events:?}");
    guarded.get("one", "/v1/pools/g").await.problem(404, "unknown-pool");
    let any = json!({ "pool": "g", "owner": "w", "ttl_ms": 1000 });
    guarded.post("one", "/v1/acquire-any", &any).await.problem(403, "forbidden");
    let revoke = json!({ "key": key, "reason": "r" });
    guarded.post("one", "/v1/admin/revoke", &revoke).await.ok();
    guarded.post("one", "/v1/release", &proof).await;
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
