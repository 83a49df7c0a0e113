//! Records: what was written is what is read, whatever its shape.

use std::sync::Arc;

use tenure::{
    clock::Chance,
    lease::{ChangeKind, MAX_KEY_BYTES, Revision},
    store::Write,
};

use crate::stores::{
    lab::{change, commit, key, pages, seed, sound},
    shapes::Shapes,
    subject::{Subject, two},
};

pub async fn records_of_every_shape_come_back(subject: &impl Subject) {
    let stores = two(subject).await;
    let mut shapes = Shapes(Chance::new(seed("shapes")));
    let key = key("shape");
    let mut highest = Revision::ABSENT;
    for n in 0..200 {
        let record = Arc::new(shapes.record());
        let write =
            Write { key: key.clone(), expected: highest, record: record.clone(), changes: vec![] };
        highest = commit(&stores[n % 2], write).await;
        assert_eq!(sound(&stores[(n + 1) % 2], &key).await, (highest, record));
    }
    let last = sound(&stores[0], &key).await;
    assert_eq!(sound(&subject.open().await, &key).await, last, "also when it was opened again");
}

pub async fn the_longest_of_everything_comes_back(subject: &impl Subject) {
    let store = subject.open().await;
    let mut shapes = Shapes(Chance::new(1));
    let key = key(&"🦀".repeat(MAX_KEY_BYTES / 4));
    let long = "w".repeat(1024);
    let mut changes = vec![change(ChangeKind::Revoked, 1), change(ChangeKind::Granted, 2)];
    for change in &mut changes {
        change.reason = Some(long.clone().into());
        change.actor = Some(long[..256].into());
    }
    let record = shapes.longest();
    let write =
        Write { key: key.clone(), expected: Revision::ABSENT, record: record.clone(), changes };
    let revision = commit(&store, write).await;
    for store in [store, subject.open().await] {
        assert_eq!(sound(&store, &key).await, (revision, record.clone()));
        let all = pages(&store, "", 10).await;
        let [(there, found)] = &all[..] else { panic!("{} keys", all.len()) };
        assert_eq!((there, found.record.as_ref()), (&key, Ok(&record)));
    }
}
