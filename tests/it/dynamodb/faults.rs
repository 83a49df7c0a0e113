//! Throttling, errors of the service, time-outs and lost replies.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tenure::{
    lease::Revision,
    store::{Health, LeaseStore, WriteOutcome, dynamodb::Options},
};

use crate::dynamodb::kit::*;
use crate::support::proxy::{Fate, HttpProxy};

use crate::support::dynamo_endpoint::Endpoint;

fn is_lease_write(operation: &str, body: &str) -> bool {
    operation == "PutItem" && body.contains("l#")
}

/// A rule that gives the first lease write this fate.
fn first(fate: Fate) -> (Arc<AtomicUsize>, impl FnMut(&str, &str) -> Fate + Send + 'static) {
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let rule = move |operation: &str, body: &str| {
        let lease = is_lease_write(operation, body);
        if lease && counted.fetch_add(1, Relaxed) == 0 { fate.clone() } else { Fate::Pass }
    };
    (writes, rule)
}

fn allow_stale(url: &str) -> Options {
    Options { request_timeout: Duration::from_millis(300), ..options(url) }
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_written_once_and_its_change_is_told() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let store = open(&proxy.url()).await;
    let mut feed = store.feed();
    let (writes, rule) = first(Fate::LoseReply);
    proxy.rule(rule);
    let write = grant(&key("k"), Revision::ABSENT, "w1", 1);
    let nonce = write.record.nonce;
    let outcome = store.compare_and_set(write.clone()).await;
    assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    assert_eq!(writes.load(Relaxed), 1, "it was sent once");
    // The caller settles it with the same write: the answer is its own record.
    let outcome = store.compare_and_set(write).await;
    let WriteOutcome::Conflict(Some(found)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(found.record.unwrap().nonce, nonce);
    assert_eq!(listen(&mut feed, 1).await.seqs[&key("k")], [1]);
}

#[tokio::test]
async fn a_change_whose_reply_was_lost_is_told_also_when_nobody_asks_again() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let (store, other) = (open(&proxy.url()).await, open(&endpoint.url()).await);
    let mut feed = other.feed();
    let (_, rule) = first(Fate::LoseReply);
    proxy.rule(rule);
    let outcome = store.compare_and_set(grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    assert_eq!(listen(&mut feed, 1).await.seqs[&key("k")], [1]);
}

#[tokio::test]
async fn a_write_that_arrives_after_its_time_out_is_unknown_and_can_be_settled() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let store = open_with(allow_stale(&proxy.url()), None).await.unwrap();
    let mut feed = store.feed();
    let (writes, rule) = first(Fate::Late(Duration::from_millis(2500)));
    proxy.rule(rule);
    let outcome = store.compare_and_set(grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    assert!(store.read(&key("k")).await.unwrap().is_none(), "not yet");
    // Settled before it arrives: then it never can.
    let revision = commit(&store, grant(&key("k"), Revision::ABSENT, "w2", 1)).await;
    tokio::time::sleep(Duration::from_millis(2600)).await;
    let found = store.read(&key("k")).await.unwrap().unwrap();
    assert_eq!(found.revision, revision);
    assert_eq!(writes.load(Relaxed), 2);
    let heard = listen(&mut feed, 1).await;
    heard.check();
    assert_eq!(store.stats().unlogged, 0);
}

#[tokio::test]
async fn errors_of_the_service_are_unknown_and_refusals_are_refusals_and_none_is_sent_again() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let store = open(&proxy.url()).await;
    let cases = [
        (500, "InternalServerError", true),
        (503, "ServiceUnavailable", true),
        (400, "AccessDeniedException", false),
        (400, "ValidationException", false),
    ];
    for (status, code, unknown) in cases {
        let (writes, rule) = first(Fate::Answer(status, code));
        proxy.rule(rule);
        let outcome = store.compare_and_set(grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
        assert_eq!(matches!(outcome, WriteOutcome::Unknown(_)), unknown, "{code}: {outcome:?}");
        assert_eq!(matches!(outcome, WriteOutcome::Refused(_)), !unknown, "{code}: {outcome:?}");
        assert_eq!(writes.load(Relaxed), 1, "{code}: it was sent once");
    }
    assert!(store.read(&key("k")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_throttled_table_is_left_alone_for_a_while_and_the_store_says_so() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let store = open(&proxy.url()).await;
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    proxy.rule(move |operation, body| {
        if is_lease_write(operation, body) {
            counted.fetch_add(1, Relaxed);
        }
        Fate::Answer(400, "ProvisionedThroughputExceededException")
    });
    let asked = 2000;
    for _ in 0..asked {
        let outcome = store.compare_and_set(grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
        assert!(matches!(outcome, WriteOutcome::Refused(_)), "{outcome:?}");
    }
    let sent = writes.load(Relaxed);
    assert!(sent < asked / 4, "most are refused at once: {sent} of {asked} were sent");
    assert!(matches!(store.health(), Health::Degraded(why) if why.contains("throttles")));
    proxy.rule(|_, _| Fate::Pass);
    eventually("ready again", async || store.health() == Health::Ready).await;
    commit(&store, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
}

#[tokio::test]
async fn reads_are_sent_again_and_everything_resolves_while_the_table_is_away() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let store = open_with(allow_stale(&proxy.url()), None).await.unwrap();
    let revision = commit(&store, grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
    let mut failed = 0;
    proxy.rule(move |operation, _| {
        failed += usize::from(operation == "GetItem");
        if operation == "GetItem" && failed <= 2 {
            Fate::Answer(500, "InternalServerError")
        } else {
            Fate::Pass
        }
    });
    assert_eq!(store.read(&key("k")).await.unwrap().unwrap().revision, revision);
    // Requests hang.
    proxy.rule(|_, _| Fate::Hang);
    let quick = Duration::from_secs(5);
    let read = tokio::time::timeout(quick, store.read(&key("k"))).await.expect("in time");
    assert!(read.is_err());
    let write = store.compare_and_set(grant(&key("k"), revision, "w2", 2));
    let outcome = tokio::time::timeout(quick, write).await.expect("in time");
    assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{outcome:?}");
    eventually("degraded", async || matches!(store.health(), Health::Degraded(_))).await;
    // Whatever came of it, it is settled by reading once the table is back.
    proxy.rule(|_, _| Fate::Pass);
    eventually("back", async || store.health() == Health::Ready).await;
    commit(&store, grant(&key("k"), revision, "w2", 2)).await;
}

#[tokio::test]
async fn where_nobody_listens_nothing_was_sent() {
    let endpoint = Endpoint::start();
    let proxy = HttpProxy::to(endpoint.addr()).await;
    let url = proxy.url();
    let store = open_with(allow_stale(&url), None).await.unwrap();
    proxy.rule(|_, _| Fate::LoseReply);
    proxy.stop();
    // Kept connections end with the first requests.
    eventually("refused", async || {
        let outcome = store.compare_and_set(grant(&key("k"), Revision::ABSENT, "w1", 1)).await;
        matches!(outcome, WriteOutcome::Refused(_))
    })
    .await;
}
