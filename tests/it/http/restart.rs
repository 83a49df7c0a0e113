//! What a crash leaves.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::json;

use crate::support::harness::{Grant, Server, assert_no_hole, eventually, kinds, ms};

/// The modes of the files do not keep whoever may write in the directory from replacing them.
#[tokio::test]
async fn a_data_directory_that_others_may_write_in_is_warned_of() {
    let warning = "other users can write to the data directory";
    let server = Server::start();
    assert!(!server.said().contains(warning), "{}", server.said());
    let stopped = server.kill();
    std::fs::set_permissions(stopped.dir(), std::fs::Permissions::from_mode(0o777)).expect("ours");
    let server = stopped.restart();
    assert!(server.said().contains(warning), "{}", server.said());
}

#[tokio::test]
async fn acknowledged_grants_releases_pins_and_offers_survive_kill_9() {
    let server = Server::start();
    let held = server.acquire("held", "w", 60_000).await;
    let released = server.acquire("released", "w", 60_000).await;
    server.release(&released).await;
    let offered = server.acquire("offered", "w", 60_000).await;
    server.post("/v1/transfer", &offered.proof_and(json!({ "to": "w2" }))).await.ok();
    server.acquire("pinned", "w", 60_000).await;
    server.post("/v1/admin/pin", &json!({ "key": "pinned", "by": "ops" })).await.ok();
    let shorter = server.acquire("shorter", "w", 60_000).await;
    server
        .post("/v1/heartbeat", &shorter.proof_and(json!({ "ttl_ms": 500, "value": "v" })))
        .await
        .ok();
    let revoked = server.acquire("revoked", "w", 60_000).await;
    server.post("/v1/admin/revoke", &json!({ "key": "revoked", "reason": "r" })).await.ok();

    let server = server.kill().restart();
    let lease = server.lease("held").await;
    assert_eq!((&lease["owner"], &lease["token"]), (&json!("w"), &json!(held.token)));
    assert_eq!(server.post("/v1/heartbeat", &held.proof()).await.ok()["token"], held.token);
    assert_eq!(server.lease("released").await["state"], "free");
    let next = server.acquire("released", "w", 60_000).await;
    assert!(next.token > released.token);
    let lease = server.lease("offered").await;
    assert_eq!(lease["state"], "offered");
    let other = json!({ "key": "offered", "owner": "w3", "ttl_ms": 1000 });
    server.post("/v1/acquire", &other).await.problem(409, "held");
    server.acquire("offered", "w2", 60_000).await;
    assert_eq!(server.lease("pinned").await["pinned"], true);
    let lease = server.lease("shorter").await;
    assert_eq!((&lease["ttl_ms"], &lease["value"]), (&json!(500), &json!("v")));
    let left = lease["expires_in_ms"].as_u64().expect("known");
    assert!(left > 50_000, "the longer promise was made before the crash: {left}");
    let lost = server.post("/v1/heartbeat", &revoked.proof()).await.problem(409, "lease-lost");
    assert_eq!(lost["reason"], "revoked");
    let other = json!({ "key": "revoked", "owner": "w3", "ttl_ms": 1000 });
    server.post("/v1/acquire", &other).await.problem(409, "held");
    for key in ["held", "released", "offered", "pinned", "shorter", "revoked"] {
        assert_no_hole(&server.events_of(key).await);
    }
}

#[tokio::test]
async fn a_restart_stretches_every_grace_for_drift_and_writes_nothing() {
    let server = Server::start();
    for key in ["a", "b", "c"] {
        server.acquire(key, "w", 600_000).await;
    }
    let server = server.kill().restart();
    for key in ["a", "b", "c"] {
        let left = server.lease(key).await["expires_in_ms"].as_u64().expect("known");
        assert!(left > 605_000, "{key} ends in {left} ms, before ttl/κ");
    }
    let next = server.acquire("d", "w", 1000).await;
    assert_eq!(next.token, 4, "nothing was written for the leases that stand");
}

#[tokio::test]
async fn a_restart_gives_every_held_lease_a_whole_ttl() {
    let server = Server::start();
    let first = server.acquire("k", "w1", 1000).await;
    let server = server.kill().restart();
    let waits = json!({ "key": "k", "owner": "w2", "ttl_ms": 1000, "wait_ms": 10_000 });
    let second = Grant::of(&server.post("/v1/acquire", &waits).await.ok());
    let after = server.started.elapsed();
    assert!(after >= ms(1000), "granted {after:?} after the start");
    assert!(after < ms(6000), "and not much later: {after:?}");
    assert!(second.token > first.token);
}

#[tokio::test]
async fn what_ran_out_before_the_crash_can_be_revived_after_it() {
    let server = Server::start();
    let grant = server.acquire("k", "w", 100).await;
    eventually("it ran out", async || server.lease("k").await["state"] == "free").await;
    let server = server.kill().restart();
    let alive = server.post("/v1/heartbeat", &grant.proof()).await.ok();
    assert_eq!((&alive["revived"], &alive["token"]), (&json!(true), &json!(grant.token)));
}

#[tokio::test]
async fn inherited_leases_expire_though_nobody_asks() {
    let server = Server::start();
    for n in 0..50 {
        server.acquire(&format!("k{n}"), "w", 200).await;
    }
    let server = server.kill().restart();
    eventually("all ended", async || {
        server
            .history()
            .await
            .iter()
            .filter(|event| kinds(&[(*event).clone()]) == ["expired"])
            .count()
            == 50
    })
    .await;
    assert_eq!(server.metric("tenure_leases_held").await, 0.0);
}

#[tokio::test]
async fn inherited_leases_of_a_session_count_before_a_call_needs_them() {
    let server = Server::start();
    let body = json!({ "owner": "w", "ttl_ms": 60_000 });
    let session = server.post("/v1/sessions", &body).await.json()["id"].clone();
    let mut grants = Vec::new();
    for n in 0..5 {
        let body = json!({ "key": format!("k{n}"), "owner": "w", "session": session });
        grants.push(Grant::of(&server.post("/v1/acquire", &body).await.ok()));
    }
    let server = server.kill().restart();
    let counted = async |count: f64| {
        let held = async || server.metric("tenure_leases_held{pool=\"default\"}").await == count;
        eventually(&format!("{count} leases count"), held).await;
    };
    counted(5.0).await;
    for (at, grant) in (1_u8..).zip(&grants) {
        server.post("/v1/release", &grant.proof()).await.ok();
        counted(5.0 - f64::from(at)).await;
    }
}

#[tokio::test]
async fn tokens_rise_through_restarts_and_a_store_keeps_its_name() {
    let mut server = Server::start();
    let info = server.get("/v1/info").await.ok();
    let mut last = 0;
    for round in 0..5 {
        let grant = server.acquire("k", "w", 60_000).await;
        assert!(grant.token > last);
        last = grant.token;
        server.release(&grant).await;
        if round % 2 == 0 {
            server = server.kill().restart();
        } else {
            server.signal(Signal::TERM);
            let stopped = server.wait();
            assert!(stopped.status.success());
            server = stopped.restart();
        }
    }
    assert_eq!(server.get("/v1/info").await.ok()["store_id"], info["store_id"]);
}
