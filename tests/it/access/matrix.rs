//! Every operation of the API, called by whoever may not and by whoever may, at a node that is alone.

use serde_json::json;

use super::{
    cast::{Guarded, acting_as, all_of, principal},
    rows::{By, Row, all_but, rows, verbs},
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
