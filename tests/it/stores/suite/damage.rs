//! Damage: a record that cannot be judged is its key's trouble alone, and never reads as absent.

use tenure::{
    lease::{CodecError, Key, Revision},
    store::WriteOutcome,
};

use crate::stores::{
    lab::{commit, eventually, found, grant, key, pages, soon, sound},
    subject::{Damage, Subject, two},
};

async fn one_keys_trouble(subject: &impl Subject, damage: Damage) {
    let stores = two(subject).await;
    let keys: Vec<Key> = (0..5).map(|n| key(&format!("d/{n}"))).collect();
    let mut revisions = Vec::new();
    for key in &keys {
        revisions.push(commit(&stores[0], grant(key, Revision::ABSENT, 1)).await);
    }
    let bad = &keys[2];
    if !subject.spoil(bad, damage).await {
        return;
    }
    for store in &stores {
        let there = found(store, bad).await.expect("a spoiled record is not an absent one");
        match (damage, &there.record) {
            (Damage::Rot, Err(_)) | (Damage::Newer, Err(CodecError::Version(_))) => {}
            (_, judged) => panic!("{damage:?} is read as {judged:?}"),
        }
        let taken = soon(store.compare_and_set(grant(bad, Revision::ABSENT, 1))).await;
        assert!(matches!(taken, WriteOutcome::Conflict(Some(_))), "as if it were free: {taken:?}");
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| *n != 2) {
            assert_eq!(sound(store, key).await.0, revisions[n]);
            revisions[n] = commit(store, grant(key, revisions[n], 2)).await;
        }
        eventually("the spoiled key is listed as such, among the others", async || {
            let listed = pages(store, "d/", 2).await;
            assert_eq!(listed.len(), keys.len(), "none is left out");
            listed[2].1.record.is_err()
        })
        .await;
    }
}

pub async fn a_record_that_rotted_is_one_keys_trouble(subject: &impl Subject) {
    one_keys_trouble(subject, Damage::Rot).await;
}

pub async fn a_record_of_a_newer_program_is_one_keys_trouble(subject: &impl Subject) {
    one_keys_trouble(subject, Damage::Newer).await;
}
