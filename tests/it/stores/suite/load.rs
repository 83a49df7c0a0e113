//! Many keys, many writes at a time, and no store at all.

use std::collections::HashSet;

use tenure::{
    lease::{Key, Revision},
    store::WriteOutcome,
};

use crate::stores::{
    lab::{committed, eventually, found, grant, key, pages, soon, sound},
    subject::{Subject, two},
};

/// Keys of the large store.
const KEYS: usize = 2_000;
/// Writes on their way at a time.
const AT_A_TIME: usize = 256;

pub async fn many_keys_are_there_when_it_is_opened_again(subject: &impl Subject) {
    let store = subject.open().await;
    let keys: Vec<Key> = (0..KEYS).map(|n| key(&format!("many/{n:05}"))).collect();
    let mut revisions = Vec::new();
    for some in keys.chunks(AT_A_TIME) {
        let writes = some.iter().map(|key| grant(key, Revision::ABSENT, 1));
        let writes = writes.map(|write| committed(store.compare_and_set(write)));
        revisions.extend(futures_util::future::join_all(writes).await);
    }
    let again = subject.open().await;
    eventually("every key is listed", async || pages(&again, "many/", 1000).await.len() == KEYS)
        .await;
    let listed = pages(&again, "", 300).await;
    for ((key, revision), (listed, found)) in keys.iter().zip(&revisions).zip(&listed) {
        assert_eq!((listed, found.revision), (key, *revision));
        assert!(found.record.is_ok(), "{key:?}");
    }
    for n in (0..KEYS).step_by(97) {
        assert_eq!(sound(&again, &keys[n]).await.0, revisions[n]);
    }
}

pub async fn writes_to_different_keys_do_not_wait_for_each_other(subject: &impl Subject) {
    let stores = two(subject).await;
    let keys: Vec<Key> = (0..AT_A_TIME).map(|n| key(&format!("wide/{n}"))).collect();
    let mut revisions = vec![Revision::ABSENT; AT_A_TIME];
    for seq in 1..=3 {
        let writes = keys.iter().zip(&revisions).enumerate().map(|(n, (key, expected))| {
            committed(stores[n % 2].compare_and_set(grant(key, *expected, seq)))
        });
        // Each has the ten seconds that any future has, and all of them run at once.
        let after = futures_util::future::join_all(writes).await;
        assert!(after.iter().zip(&revisions).all(|(after, before)| after > before));
        revisions = after;
    }
    // A future that nobody waits for any more disturbs nobody.
    let gone = key("wide/gone");
    drop(stores[0].compare_and_set(grant(&gone, Revision::ABSENT, 1)));
    let reads = keys.iter().map(|key| sound(&stores[1], key));
    let read = futures_util::future::join_all(reads).await;
    assert!(read.iter().zip(&revisions).all(|((read, _), written)| read == written));
}

pub async fn every_future_resolves_while_the_store_is_out_of_reach(subject: &impl Subject) {
    let stores = two(subject).await;
    let keys: Vec<Key> = (0..20).map(|n| key(&format!("away/{n}"))).collect();
    let mut revisions = Vec::new();
    for key in &keys {
        revisions.push(committed(stores[0].compare_and_set(grant(key, Revision::ABSENT, 1))).await);
    }
    if !subject.out_of_reach(true).await {
        return;
    }
    let writes: Vec<_> =
        keys.iter().zip(&revisions).map(|(key, expected)| grant(key, *expected, 2)).collect();
    let outcomes = writes.iter().map(|write| soon(stores[0].compare_and_set(write.clone())));
    let reads = keys.iter().map(|key| soon(stores[1].read(key)));
    let (outcomes, reads) = futures_util::future::join(
        futures_util::future::join_all(outcomes),
        futures_util::future::join_all(reads),
    )
    .await;
    for outcome in &outcomes {
        assert!(
            matches!(outcome, WriteOutcome::Refused(_) | WriteOutcome::Unknown(_)),
            "{outcome:?}"
        );
    }
    assert!(reads.iter().all(Result::is_err), "a fresh read needs the store");
    subject.out_of_reach(false).await;
    eventually("the store is back", async || soon(stores[0].read(&keys[0])).await.is_ok()).await;
    eventually("and takes writes", async || {
        let back = key("away/back");
        let there = soon(stores[1].read(&back)).await;
        let Ok(there) = there else { return false };
        let expected = there.map_or(Revision::ABSENT, |found| found.revision);
        matches!(
            soon(stores[1].compare_and_set(grant(&back, expected, 1))).await,
            WriteOutcome::Committed(_)
        )
    })
    .await;
    let (mut written, mut seen) = (0, HashSet::new());
    for ((key, write), (outcome, before)) in
        keys.iter().zip(&writes).zip(outcomes.iter().zip(&revisions))
    {
        let there = found(&stores[0], key).await.expect("a record");
        let record = there.record.expect("sound");
        assert!(seen.insert(record.nonce), "one write in two places");
        let landed = record.nonce == write.record.nonce;
        written += usize::from(landed);
        assert!(landed || there.revision == *before, "nobody else wrote {key:?}");
        let refused = matches!(outcome, WriteOutcome::Refused(_));
        assert!(!(refused && landed), "{key:?} was refused, and is there");
    }
    println!("{written} of {} ambiguous writes landed", writes.len());
}
