//! The guard of one lease.

use std::{sync::Arc, time::Duration};

use rustix::process::Signal;
use serde_json::json;
use tenure::client::{ClientError, Hold, Loss, Order};

use crate::client::harness::{Server, eventually, hold, soon};

use crate::support::clock::{ms, now, sleep_ms};

#[tokio::test]
async fn it_is_kept_for_many_ttls_and_every_renewal_is_told() {
    let server = Server::start().await;
    let lease = Arc::new(server.hold("a", 1000).await);
    assert_eq!((lease.key(), lease.owner(), lease.ttl()), ("a", "w", ms(1000)));
    let mut deadlines = lease.deadlines();
    let (start, shared) = (now(), lease.clone());
    let sees = tokio::spawn(async move { shared.lost().await });
    let mut renewals = 0;
    while now().since(start) < ms(4000) {
        assert!(lease.valid() && lease.remaining() <= ms(1000));
        if tokio::time::timeout(ms(100), deadlines.changed()).await.is_ok() {
            let told = *deadlines.borrow_and_update();
            assert!(told.until > now() && told.lost.is_none(), "{told:?}");
            renewals += 1;
        }
    }
    assert!((8..=40).contains(&renewals), "{renewals} renewals in 4 s");
    assert_eq!(server.client().lease("a").await.unwrap().token, Some(lease.token()));
    assert!(lease.release_with("page 7").await.unwrap());
    assert!(!lease.valid() && lease.remaining() == Duration::ZERO);
    assert_eq!(soon("the loss", sees).await.unwrap(), Loss::Released);
    assert!(!lease.release().await.unwrap(), "it was over before");
    let next = server.hold("a", 1000).await;
    assert_eq!(next.value(), Some("page 7"));
    assert!(next.token() > lease.token());
}

#[tokio::test]
async fn a_guard_that_is_dropped_is_given_back() {
    let server = Server::start().await;
    drop(server.hold("a", 60_000).await);
    server.until_state("a", "free").await;
    let shared = Arc::new(server.hold("a", 60_000).await);
    let other = shared.clone();
    drop(shared);
    sleep_ms(300).await;
    assert_eq!(server.state("a").await, "held", "somebody has it yet");
    tokio::task::spawn_blocking(move || drop(other)).await.unwrap();
    server.until_state("a", "free").await;
}

#[tokio::test]
async fn it_waits_and_any_and_prefix_and_many_are_told_apart() {
    let server = Server::start().await;
    let client = server.client();
    let first = server.hold("x/1", 60_000).await;
    let refused = client.hold(hold("x/1", 1000).owner("v")).await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "held");
    let mine = client.hold(hold("x/1", 1000)).await.unwrap_err();
    assert_eq!(mine.problem().unwrap().code, "held-by-you");
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.hold(hold("x/1", 60_000).owner("v").wait(ms(15_000))).await }
    });
    eventually("it waits", async || client.lease("x/1").await.unwrap().waiters == Some(1)).await;
    first.release().await.unwrap();
    let second = soon("the grant", waiting).await.unwrap().unwrap();
    assert!(second.token() > first.token());
    let any = Hold::any(["x/1", "x/2", "x/3"]).owner("w").order(Order::Listed).count(5);
    let two = client.hold_many(any).await.unwrap();
    let keys: Vec<&str> = two.iter().map(|lease| lease.key()).collect();
    assert_eq!(keys, ["x/2", "x/3"]);
    two[0].release().await.unwrap();
    let one = client.hold(Hold::prefix("x/").owner("w")).await.unwrap();
    assert_eq!(one.key(), "x/2");
    let taken = client.hold(hold("x/2", 60_000).reclaim(true)).await.unwrap();
    assert_eq!(soon("the loss", two[0].lost()).await, Loss::Released);
    assert!(taken.token() > one.token());
}

#[tokio::test]
async fn the_cause_of_a_loss_is_told() {
    let server = Server::start().await;
    let (client, node) = (server.client(), &server.node);
    for (key, path, body, loss) in [
        (
            "revoked",
            "/v1/admin/revoke",
            json!({ "reason": "r", "immediately": true }),
            Loss::Revoked,
        ),
        (
            "reclaimed",
            "/v1/acquire",
            json!({ "owner": "w", "ttl_ms": 1000, "reclaim": true }),
            Loss::Reclaimed,
        ),
        ("transferred", "/v1/transfer", json!({ "to": "b" }), Loss::Transferred),
        ("released", "/v1/release", json!({}), Loss::Released),
    ] {
        let lease = client.hold(hold(key, 900)).await.unwrap();
        let mut body = body;
        body["key"] = json!(key);
        if path.ends_with("transfer") || path.ends_with("release") {
            // Somebody else who knows the secret.
            body["lease_id"] = json!(lease.lease_id());
        }
        let (status, answer) = node.post(path, &body).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(soon("the loss", lease.lost()).await, loss, "{key}");
        assert!(!lease.valid());
        assert_eq!(lease.deadlines().borrow().lost, Some(loss));
    }
}

#[tokio::test]
async fn it_is_handed_over_with_a_value() {
    let server = Server::start().await;
    let lease = server.hold("a", 60_000).await;
    assert!(lease.transfer(Some("b"), Some("half")).await.unwrap());
    assert_eq!(lease.lost().await, Loss::Transferred);
    let next = server.client().hold(Hold::key("a").owner("b")).await.unwrap();
    assert_eq!(next.value(), Some("half"));
}

#[tokio::test]
async fn a_silent_server_puts_it_at_risk_and_then_ends_it_in_time() {
    let server = Server::start().await;
    let lease = server.hold("a", 2000).await;
    server.node.signal(Signal::STOP);
    let left = soon("the warning", lease.at_risk()).await;
    assert!(lease.valid() && left > ms(300) && left < ms(1100), "{left:?}");
    assert_eq!(soon("the loss", lease.lost()).await, Loss::Unreachable);
    let late = now().since(lease.deadline().until);
    assert!(now() >= lease.deadline().until && late < ms(500), "{late:?} late");
    server.node.signal(Signal::CONT);
    // A tenure that ran out is not taken up again, and not given back either. A heartbeat that was on its way when the
    // server stood still may revive it once more.
    drop(lease);
    sleep_ms(200).await;
    server.until_state("a", "free").await;
    let history = server.history("a").await;
    assert_eq!(history[..2], ["granted", "expired"]);
    assert!(!history.contains(&"released".to_owned()), "{history:?}");
}

#[tokio::test]
async fn it_survives_a_kill_of_its_server_that_is_shorter_than_its_ttl() {
    let mut server = Server::start().await;
    let lease = server.hold("a", 6000).await;
    let before = lease.deadline().until;
    server.node.kill();
    server.node.start().await;
    let mut deadlines = lease.deadlines();
    soon("a renewal", deadlines.wait_for(|told| told.until > before)).await.unwrap();
    assert!(lease.valid());
    let held = server.client().lease("a").await.unwrap();
    assert_eq!((held.token, held.state.as_str()), (Some(lease.token()), "held"));
}

#[tokio::test]
async fn it_is_lost_when_its_server_stays_away() {
    let mut server = Server::start().await;
    let lease = server.hold("a", 1500).await;
    server.node.kill();
    assert_eq!(soon("the loss", lease.lost()).await, Loss::Unreachable);
    let refused = server.client().hold(hold("a", 1000)).await;
    assert!(matches!(refused, Err(ClientError::Unreachable { sent: false, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_heartbeat_that_is_wanted_now_confirms_it_or_tells_that_it_is_over() {
    let server = Server::start().await;
    let lease = server.hold("a", 60_000).await;
    let before = lease.deadline().until;
    sleep_ms(100).await;
    let left = lease.renew().await.unwrap();
    assert!(lease.deadline().until > before && left <= ms(60_000), "{left:?}");
    let order = json!({ "key": "a", "reason": "r", "immediately": true });
    assert_eq!(server.node.post("/v1/admin/revoke", &order).await.0, 200);
    for _ in 0..2 {
        let refused = lease.renew().await.unwrap_err();
        let problem = refused.problem().unwrap();
        assert_eq!(
            (problem.code.as_str(), problem.reason.as_deref()),
            ("lease-lost", Some("revoked"))
        );
        assert_eq!((lease.valid(), lease.deadline().lost), (false, Some(Loss::Revoked)));
    }
}

#[tokio::test]
async fn a_heartbeat_that_no_server_answers_ends_nothing_before_the_deadline() {
    let mut server = Server::start().await;
    let lease = server.hold("a", 4000).await;
    server.node.kill();
    let failed = lease.renew().await.unwrap_err();
    assert!(matches!(failed, ClientError::Unreachable { .. }), "{failed}");
    assert!(lease.valid());
    assert_eq!(soon("the loss", lease.lost()).await, Loss::Unreachable);
    assert_eq!(lease.renew().await.unwrap_err().problem().unwrap().code, "lease-lost");
}

#[tokio::test]
async fn a_client_is_settled_when_all_that_nobody_wants_is_given_back() {
    let server = Server::start().await;
    let client = server.client();
    soon("nothing", client.settled()).await;
    let held = server.hold("b", 60_000).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.hold(hold("b", 60_000).owner("v").wait(ms(15_000))).await }
    });
    eventually("it waits", async || client.lease("b").await.unwrap().waiters == Some(1)).await;
    drop(client.hold(hold("a", 60_000)).await.unwrap());
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    soon("the end", client.settled()).await;
    assert_eq!(server.state("a").await, "free");
    eventually("nobody waits", async || client.lease("b").await.unwrap().waiters == Some(0)).await;
    held.release().await.unwrap();
    sleep_ms(300).await;
    assert_eq!(server.history("b").await, ["granted", "released"]);
}
