//! Conditional writes.

use tenure::{
    lease::{CodecError, Revision},
    store::{LeaseStore, Range, WriteOutcome},
};

use crate::dynamodb::kit::*;

use crate::support::dynamo_endpoint::Endpoint;

#[tokio::test]
async fn of_two_writes_on_one_revision_one_wins_and_the_other_sees_it() {
    let endpoint = Endpoint::start();
    let (a, b) = (open(&endpoint.url()).await, open(&endpoint.url()).await);
    let key = key("jobs/ü ≥ 🦀 * > .");
    assert!(a.read(&key).await.unwrap().is_none());
    let revision = commit(&a, grant(&key, Revision::ABSENT, "w1", 1)).await;
    // The other store knows nothing of the key: the failed condition brings the winner.
    let WriteOutcome::Conflict(Some(found)) =
        b.compare_and_set(grant(&key, Revision::ABSENT, "w2", 1)).await
    else {
        panic!("a conflict")
    };
    assert_eq!(found.revision, revision);
    let record = found.record.unwrap();
    assert_eq!(record.tenure.as_ref().unwrap().owner.as_str(), "w1");
    let next = commit(&b, grant(&key, revision, "w2", 2)).await;
    assert_eq!(next.0, revision.0 + 1);
    // Another revision than is there, on a store that still believes in it.
    let stale = a.compare_and_set(grant(&key, revision, "w3", 2)).await;
    assert!(
        matches!(stale, WriteOutcome::Conflict(Some(found)) if found.revision == next),
        "conflict"
    );
    let nothing =
        a.compare_and_set(grant(&crate::dynamodb::kit::key("k2"), Revision(9), "w1", 1)).await;
    assert!(matches!(nothing, WriteOutcome::Conflict(None)), "{nothing:?}");
    assert_eq!(a.read(&key).await.unwrap().unwrap().revision, next);
}

#[tokio::test]
async fn a_hundred_writers_of_one_revision_have_one_winner() {
    let endpoint = Endpoint::start();
    let (a, b) = (open(&endpoint.url()).await, open(&endpoint.url()).await);
    let key = key("k");
    let mut revision = Revision::ABSENT;
    for round in 1..=5 {
        let racers = (0..100).map(|n| {
            let store = if n % 2 == 0 { &a } else { &b };
            store.compare_and_set(grant(&key, revision, &format!("w{n}"), round))
        });
        let outcomes = futures_util::future::join_all(racers).await;
        let mut won: Vec<Revision> = Vec::new();
        for outcome in outcomes {
            match outcome {
                WriteOutcome::Committed(revision) => won.push(revision),
                WriteOutcome::Conflict(Some(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(won.len(), 1, "round {round}: {won:?}");
        revision = won[0];
    }
}

#[tokio::test]
async fn tokens_rise_through_deletion_by_hand_and_recreation_also_by_another_store() {
    let endpoint = Endpoint::start();
    let (a, b) = (open(&endpoint.url()).await, open(&endpoint.url()).await);
    let key = key("k");
    let mut revision = Revision::ABSENT;
    for seq in 1..=7 {
        revision = commit(&a, grant(&key, revision, "w1", seq)).await;
    }
    let mut feed = b.feed();
    // It was logged, and read by the other store.
    eventually("read by b", async || {
        b.stats().log_head >= a.stats().log_head && a.stats().unlogged == 0
    })
    .await;
    delete(&endpoint.url(), "l#k", "l").await;
    assert!(b.read(&key).await.unwrap().is_none());
    let again = commit(&b, grant(&key, Revision::ABSENT, "w2", 1)).await;
    assert!(again > revision, "{again:?} after {revision:?}");
    // Its changes begin anew: listeners hear of a gap where they may have missed something.
    let heard = loop {
        let heard = listen(&mut feed, 1).await;
        if heard.seqs[&key] == [1] && heard.tokens[&key] == [again.0] {
            break heard;
        }
    };
    assert!(heard.tokens[&key][0] > revision.0);
    // The store that wrote it first, and still believes in its last revision, too.
    delete(&endpoint.url(), "l#k", "l").await;
    let lost = a.compare_and_set(grant(&key, revision, "w1", 8)).await;
    assert!(matches!(lost, WriteOutcome::Conflict(None)), "{lost:?}");
    eventually("read by a", async || a.stats().log_head >= b.stats().log_head).await;
    let third = commit(&a, grant(&key, Revision::ABSENT, "w1", 1)).await;
    assert!(third > revision, "{third:?}");
    // Also after all stores were closed, and one was opened on what is there.
    a.close().await;
    b.close().await;
    delete(&endpoint.url(), "l#k", "l").await;
    let c = open(&endpoint.url()).await;
    let fourth = commit(&c, grant(&key, Revision::ABSENT, "w1", 1)).await;
    assert!(fourth > third && fourth > again, "{fourth:?}");
}

#[tokio::test]
async fn a_scan_has_the_keys_of_a_range_in_byte_order_with_their_records() {
    let endpoint = Endpoint::start();
    let a = open(&endpoint.url()).await;
    let mut all: Vec<String> = (0..250).map(|n| format!("jobs/{n:03}")).collect();
    all.extend(["a", "jobs", "jobz", "z/ü"].map(str::to_owned));
    for name in &all {
        commit(&a, grant(&key(name), Revision::ABSENT, "w1", 1)).await;
    }
    // Another store has them from the table.
    let b = open(&endpoint.url()).await;
    all.sort();
    for store in [&a, &b] {
        let found = store.scan(Range { limit: 1000, ..Range::default() }).await.unwrap();
        let names: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(names, all);
        assert!(found.iter().all(|(_, found)| found.record.as_ref().unwrap().seq == 1));
    }
    let range = Range { prefix: "jobs/".into(), after: Some("jobs/009".into()), limit: 120 };
    let found = b.scan(range).await.unwrap();
    assert_eq!(found.len(), 120);
    assert_eq!(found[0].0.as_str(), "jobs/010");
    assert_eq!(b.stats().keys, 254);
    // A key that goes by hand is left out, and does not make the page short.
    delete(&endpoint.url(), "l#jobs/011", "l").await;
    let range = Range { prefix: "jobs/".into(), after: Some("jobs/009".into()), limit: 3 };
    let found = b.scan(range).await.unwrap();
    let names: Vec<_> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["jobs/010", "jobs/012", "jobs/013"]);
}

#[tokio::test]
async fn a_record_that_rotted_or_names_another_key_is_one_keys_trouble() {
    let endpoint = Endpoint::start();
    let a = open(&endpoint.url()).await;
    for name in ["k1", "k2", "k3"] {
        commit(&a, grant(&key(name), Revision::ABSENT, "w1", 1)).await;
    }
    let spoil = |pk: &'static str, set: &'static str, value| {
        let update = client(&endpoint.url()).update_item().table_name(TABLE);
        let update = update.key("pk", text(pk)).key("sk", text("l"));
        let update = update.update_expression(set).expression_attribute_names("#k", "key");
        update.expression_attribute_values(":v", value)
    };
    spoil("l#k1", "SET #k = :v", text("other")).send().await.unwrap();
    let rot = aws_sdk_dynamodb::primitives::Blob::new(vec![2, 9, 9, 9, 9, 9]);
    let rotten = client(&endpoint.url()).update_item().table_name(TABLE);
    let rotten = rotten.key("pk", text("l#k2")).key("sk", text("l"));
    let rotten = rotten.update_expression("SET #r = :v").expression_attribute_names("#r", "record");
    let value = aws_sdk_dynamodb::types::AttributeValue::B(rot);
    rotten.expression_attribute_values(":v", value).send().await.unwrap();
    for store in [&a, &open(&endpoint.url()).await] {
        for name in ["k1", "k2"] {
            let found = store.read(&key(name)).await.unwrap().unwrap();
            assert!(matches!(found.record, Err(CodecError::Checksum)), "{found:?}");
        }
        assert!(store.read(&key("k3")).await.unwrap().unwrap().record.is_ok());
        let all = store.scan(Range { limit: 10, ..Range::default() }).await.unwrap();
        assert_eq!(all.len(), 3);
    }
}
