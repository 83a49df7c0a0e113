//! What refusals tell of keys and pools that the caller may not read.

use serde_json::{Value, json};

use super::cast::{Guarded, principal};

const POLICIES: &str = r#"
[[policy]]
prefix = "vault/"
pool = "vault-pool"

[[policy]]
prefix = "open/"
pool = "open-pool"
"#;

/// `blind` may hold what it may not read, `outsider` may do nothing in the vault, and `guest` may hold a part of it.
fn cast() -> [String; 4] {
    let every = r#"{ verb = ["hold", "read", "admin"], prefix = "" }"#;
    let blind = r#"{ verb = "read", prefix = "open/" }, { verb = ["hold", "admin"], prefix = "" }"#;
    let outsider = r#"{ verb = ["hold", "read"], prefix = "open/" }"#;
    let guest = r#"{ verb = "hold", prefix = "vault/guest/" }"#;
    [
        principal("secretary", every),
        principal("blind", blind),
        principal("outsider", outsider),
        principal("guest", guest),
    ]
}

#[tokio::test]
async fn an_acquire_any_tells_nothing_of_the_state_of_keys_that_the_caller_may_not_read() {
    let guarded = Guarded::configured(&cast(), POLICIES, &[]);
    for key in ["vault/1", "open/1"] {
        let body = json!({ "key": key, "owner": "secretary", "ttl_ms": 60_000 });
        guarded.post("secretary", "/v1/acquire", &body).await.ok();
    }
    let ask = async |candidates: Value| {
        let mut body = json!({ "owner": "blind", "ttl_ms": 1000 });
        body.as_object_mut()
            .expect("an object")
            .extend(candidates.as_object().cloned().expect("an object"));
        guarded.post("blind", "/v1/acquire-any", &body).await.problem(409, "none-available")
    };
    let seen = ask(json!({ "keys": ["open/1"] })).await;
    assert_eq!(seen["counts"]["held"], 1, "{seen}");
    assert!(seen["retry_after_ms"].is_u64(), "{seen}");
    for candidates in [
        json!({ "keys": ["vault/1"] }),
        json!({ "keys": ["open/1", "vault/1"] }),
        json!({ "prefix": "vault/" }),
        json!({ "pool": "vault-pool" }),
    ] {
        let told = ask(candidates).await;
        assert!(told["counts"].is_null() && told["retry_after_ms"].is_null(), "{told}");
        assert_eq!(told["detail"], told["title"], "{told}");
    }
}

#[tokio::test]
async fn a_pool_of_which_the_caller_has_no_part_is_refused_like_one_that_does_not_exist() {
    let guarded = Guarded::configured(&cast(), POLICIES, &[]);
    let session = |pool: &str| json!({ "owner": "o", "ttl_ms": 5000, "pool": pool });
    for path in ["/v1/sessions", "/v1/acquire-any"] {
        let [there, nowhere] = ["vault-pool", "nowhere-at"].map(&session);
        let there = guarded.post("outsider", path, &there).await;
        let nowhere = guarded.post("outsider", path, &nowhere).await;
        assert_eq!(there.status, 400, "{}", there.text());
        assert_eq!(there.text(), nowhere.text().replace("nowhere-at", "vault-pool"));
    }
    for path in ["/v1/leases?pool=", "/v1/events?format=json&pool="] {
        let there = guarded.get("outsider", &format!("{path}vault-pool")).await;
        let nowhere = guarded.get("outsider", &format!("{path}nowhere-at")).await;
        assert_eq!(there.status, 400, "{}", there.text());
        assert_eq!(there.text(), nowhere.text().replace("nowhere-at", "vault-pool"));
    }
    // Who has a part of it is told what is missing, and no prefix.
    let refused = guarded.post("guest", "/v1/sessions", &session("vault-pool")).await;
    let problem = refused.problem(403, "forbidden");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains("for all keys of the pool \"vault-pool\""), "{detail}");
    assert!(!refused.text().contains("vault/"), "{detail}");
}

#[tokio::test]
async fn an_order_tells_nothing_of_a_pool_of_which_the_caller_has_no_part() {
    let cast = [
        principal("other", r#"{ verb = ["admin", "read"], prefix = "open/" }"#),
        principal("part", r#"{ verb = "admin", prefix = "vault/guest/" }"#),
        principal("one", r#"{ verb = "admin", key = "vault/1" }"#),
        principal("blind", r#"{ verb = "admin", prefix = "vault" }"#),
        principal("secretary", r#"{ verb = ["hold", "read", "admin"], prefix = "" }"#),
    ];
    let guarded = Guarded::configured(&cast, POLICIES, &[]);
    let member = json!({ "owner": "hidden-owner", "ttl_ms": 60_000, "pool": "vault-pool",
                         "address": "http://10.9.9.9", "labels": { "zone": "hidden-zone" } });
    assert_eq!(guarded.post("secretary", "/v1/sessions", &member).await.status, 201);
    let order = |pool: &str, action: &str| {
        let mut body = json!({ "pool": pool, "action": action, "reason": "r" });
        if ["cordon", "uncordon", "move"].contains(&action) {
            body["owner"] = "hidden-owner".into();
        }
        if ["pause", "move", "resume"].contains(&action) {
            body["key"] = "vault/1".into();
        }
        body
    };
    let actions = [
        "freeze",
        "thaw",
        "cordon",
        "uncordon",
        "pause",
        "move",
        "resume",
        "rebalance",
        "end-guard",
    ];
    for action in actions {
        let there = guarded.post("other", "/v1/admin/pool", &order("vault-pool", action)).await;
        let nowhere = guarded.post("other", "/v1/admin/pool", &order("nowhere-at", action)).await;
        there.problem(404, "unknown-pool");
        assert_eq!(there.text(), nowhere.text().replace("nowhere-at", "vault-pool"), "{action}");
        for who in ["part", "one"] {
            let refused = guarded.post(who, "/v1/admin/pool", &order("vault-pool", action)).await;
            let detail = refused.problem(403, "forbidden")["detail"].to_string();
            assert!(detail.contains("for all keys of the pool"), "{detail}");
            assert!(!refused.text().contains("vault/"), "{detail}");
        }
    }
    let done = guarded.post("blind", "/v1/admin/pool", &order("vault-pool", "freeze")).await;
    assert_eq!(done.ok(), json!({}));
    let seen = guarded.post("secretary", "/v1/admin/pool", &order("vault-pool", "thaw")).await.ok();
    assert_eq!(seen["members"][0]["owner"], "hidden-owner");
}

#[tokio::test]
async fn who_forgets_keys_that_it_may_not_read_is_told_none_of_them() {
    const KEYS: usize = 10_300;
    let guarded = Guarded::configured(&cast(), POLICIES, &[]);
    let names: Vec<_> = (0..KEYS).map(|n| format!("vault/{n:05}")).collect();
    for names in names.chunks(10_000) {
        let body =
            json!({ "keys": names, "count": names.len(), "owner": "blind", "ttl_ms": 600_000 });
        let grants = guarded.post("blind", "/v1/acquire-any", &body).await.ok();
        let grants = grants["grants"].as_array().expect("grants");
        assert_eq!(grants.len(), names.len());
        let proof = |grant: &Value| json!({ "key": grant["key"], "lease_id": grant["lease_id"] });
        let leases: Vec<_> = grants.iter().map(proof).collect();
        guarded.post("blind", "/v1/releases", &json!({ "leases": leases })).await.ok();
    }
    let order = json!({ "prefix": "vault/", "reason": "done" });
    let some = guarded.post("secretary", "/v1/admin/forget", &order).await.ok();
    assert!(some["next"].as_str().is_some_and(|next| next.starts_with("vault/")), "{some}");
    let all = guarded.post("blind", "/v1/admin/forget", &order).await.ok();
    assert_eq!(all, json!({ "forgotten": KEYS, "left": 0, "next": null }));
}
