//! The guard of a session.

use serde_json::json;
use tenure::client::{Hold, Loss, Session, SessionOptions};

use crate::client::harness::{Server, eventually, soon};

use crate::support::clock::{ms, sleep_ms};

async fn open(server: &Server, ttl_ms: u64) -> Session {
    let options = SessionOptions::new("w").ttl(ms(ttl_ms));
    server.client().open_session(options).await.expect("a session")
}

#[tokio::test]
async fn one_heartbeat_keeps_a_hundred_leases_and_a_notice_ends_one() {
    let server = Server::start().await;
    let session = open(&server, 1500).await;
    let keys: Vec<String> = (0..100).map(|n| format!("k/{n}")).collect();
    let leases = session.acquire_any(Hold::any(keys).count(100)).await.unwrap();
    assert_eq!((leases.len(), session.count()), (100, 100));
    let before = server.node.metric("tenure_lease_heartbeats_total").await;
    sleep_ms(4000).await;
    assert!(session.valid() && leases.iter().all(|lease| lease.valid()));
    assert!(leases.iter().all(|lease| lease.ttl() == ms(1500) && lease.owner() == "w"));
    let beats = server.node.metric("tenure_lease_heartbeats_total").await - before;
    assert!(beats <= 20.0, "{beats} heartbeats in 4 s");
    let (one, others) = leases.split_first().unwrap();
    let promised = one.deadline().until;
    let order = json!({ "key": one.key(), "reason": "test" });
    assert_eq!(server.node.post("/v1/admin/revoke", &order).await.0, 200);
    assert_eq!(soon("the loss", one.lost()).await, Loss::Revoked);
    assert!(!one.valid() && one.deadline().until >= promised);
    server.until_state(one.key(), "free").await;
    sleep_ms(1000).await;
    assert!(!one.valid() && others.iter().all(|lease| lease.valid()));
    assert_eq!(session.lost_now(), None);
    assert!(session.close().await.unwrap());
    for lease in others {
        assert!(!lease.valid());
        assert_eq!(lease.lost().await, Loss::SessionEnded);
    }
    server.until_state(others[7].key(), "free").await;
}

trait LostNow {
    fn lost_now(&self) -> Option<Loss>;
}

impl LostNow for Session {
    fn lost_now(&self) -> Option<Loss> {
        self.deadline().lost
    }
}

#[tokio::test]
async fn an_end_that_no_notice_told_is_found_by_the_digest() {
    let server = Server::start().await;
    let session = open(&server, 6000).await;
    let (gone, kept) = (session.acquire("a").await.unwrap(), session.acquire("b").await.unwrap());
    sleep_ms(300).await;
    // Nothing is promised before this ends: no heartbeat hears of it.
    let order = json!({ "key": "a", "reason": "test", "immediately": true });
    assert_eq!(server.node.post("/v1/admin/revoke", &order).await.0, 200);
    assert_eq!(soon("the loss", gone.lost()).await, Loss::Revoked);
    sleep_ms(2500).await;
    assert!(kept.valid() && session.valid() && session.count() == 1);
}

/// A grant under the session that its guard never hears of.
async fn grant_unheard(server: &Server, session: &Session, key: &str) {
    let body = json!({ "key": key, "owner": session.owner(), "session": session.id() });
    assert_eq!(server.node.post("/v1/acquire", &body).await.0, 200);
}

#[tokio::test]
async fn a_grant_that_was_never_heard_of_is_given_back() {
    let server = Server::start().await;
    let session = open(&server, 2000).await;
    let known = session.acquire("known").await.unwrap();
    grant_unheard(&server, &session, "lost").await;
    server.until_state("lost", "free").await;
    assert!(known.valid() && session.count() == 1);
    assert_eq!(server.state("known").await, "held");
    let kinds = server.history("lost").await;
    assert_eq!(kinds, ["granted", "reclaimed", "granted", "released"]);
}

#[tokio::test]
async fn who_shares_its_session_keeps_what_its_guard_does_not_know() {
    let server = Server::start().await;
    let options = SessionOptions::new("w").ttl(ms(2000)).shared();
    let session = server.client().open_session(options).await.expect("a session");
    grant_unheard(&server, &session, "theirs").await;
    sleep_ms(9_000).await;
    assert_eq!(server.state("theirs").await, "held");
}

#[tokio::test]
async fn nothing_is_given_back_that_a_request_may_yet_be_told_of() {
    let server = Server::start().await;
    let session = std::sync::Arc::new(open(&server, 2000).await);
    let other = Hold::key("held").owner("v").ttl(ms(60_000));
    let held = server.client().hold(other).await.unwrap();
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.hold(Hold::key("held").wait(ms(30_000))).await }
    });
    eventually("it waits", async || {
        server.client().lease("held").await.unwrap().waiters == Some(1)
    })
    .await;
    // As far as the guard can tell, this may be the answer to what waits.
    grant_unheard(&server, &session, "lost").await;
    sleep_ms(9_000).await;
    assert_eq!(server.state("lost").await, "held");
    held.release().await.unwrap();
    let granted = soon("the grant", waiting).await.unwrap().unwrap();
    server.until_state("lost", "free").await;
    assert!(granted.valid());
}

#[tokio::test]
async fn its_leases_are_over_with_it_and_the_cause_is_told() {
    let server = Server::start().await;
    let session = open(&server, 900).await;
    let lease = session.acquire("a").await.unwrap();
    let path = format!("/v1/sessions/{}", session.id());
    assert_eq!(server.node.delete(&path).await.0, 200);
    let loss = soon("the loss", session.lost()).await;
    assert_eq!(loss, Loss::Released);
    assert_eq!(soon("the loss", lease.lost()).await, Loss::SessionEnded);
    let refused = session.acquire("b").await.unwrap_err();
    assert_eq!(refused.problem().unwrap().code, "session-lost");
    assert!(!session.close().await.unwrap());
}

#[tokio::test]
async fn what_is_dropped_is_given_back() {
    let server = Server::start().await;
    let session = open(&server, 60_000).await;
    drop(session.acquire("a").await.unwrap());
    server.until_state("a", "free").await;
    eventually("nothing is left", async || session.count() == 0).await;
    let lease = session.acquire("b").await.unwrap();
    assert_eq!(server.state("b").await, "held");
    drop(session);
    assert!(!lease.valid());
    server.until_state("b", "free").await;
}

#[tokio::test]
async fn it_is_lost_with_all_leases_when_its_server_stays_away() {
    let mut server = Server::start().await;
    let session = open(&server, 1500).await;
    let lease = session.acquire("a").await.unwrap();
    server.node.kill();
    let warned = soon("the warning", lease.at_risk()).await;
    assert!(warned > ms(200), "{warned:?}");
    assert_eq!(soon("the loss", lease.lost()).await, Loss::Unreachable);
    assert_eq!(session.lost().await, Loss::Unreachable);
    server.node.start().await;
}

#[tokio::test]
async fn a_session_without_progress_is_ended_and_says_so() {
    let server = Server::start().await;
    let check = tenure::client::HealthCheck::Progress { interval_ms: 700, fail_after: 2 };
    let options = SessionOptions::new("w").ttl(ms(900)).check(check);
    let session = server.client().open_session(options).await.unwrap();
    for step in 0..20 {
        session.progress(step.to_string());
        sleep_ms(150).await;
        assert!(session.valid(), "step {step}");
    }
    assert_eq!(soon("the loss", session.lost()).await, Loss::Revoked);
}

#[tokio::test]
async fn a_drained_session_is_asked_for_everything_and_whoever_waits_gets_it() {
    let server = Server::start().await;
    let session = open(&server, 3000).await;
    let lease = session.acquire("a").await.unwrap();
    let client = server.client();
    let waiting =
        tokio::spawn(
            async move { client.hold(Hold::key("a").owner("next").wait(ms(15_000))).await },
        );
    let client = server.client();
    eventually("it waits", async || client.lease("a").await.unwrap().waiters == Some(1)).await;
    let left = session.drain().await.unwrap();
    assert!(left > ms(1000), "{left:?}");
    assert!(soon("the request", lease.handover_requested()).await <= left);
    assert!(soon("the request", session.handover_requested()).await <= left);
    assert!(lease.transfer(None, Some("half")).await.unwrap());
    let next = soon("the grant", waiting).await.unwrap().unwrap();
    assert_eq!((next.value(), next.owner()), (Some("half"), "next"));
    assert!(next.token() > lease.token() && session.valid());
    assert!(session.close().await.unwrap());
}
