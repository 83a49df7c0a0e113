//! Scans and reads.

use std::{collections::BTreeMap, sync::Arc};

use tenure::{
    clock::Chance,
    lease::{ChangeKind, Key, KeyState, Record, Revision},
    store::{Counted, LeaseStore, Range, Write},
};

use crate::stores::{
    lab::{change, commit, eventually, found, grant, key, nonce, pages, seed, soon, sound},
    shapes::Shapes,
    subject::{Subject, two},
};

pub async fn pages_of_a_prefix_come_in_byte_order(subject: &impl Subject) {
    let stores = two(subject).await;
    let mut names: Vec<String> = (0..150).map(|n| format!("a/{n}")).collect();
    names.extend(
        ["a", "a.", "a0", "A/1", "b/1", "é", "a/é", "a/\u{10ffff}", "a0/1"].map(String::from),
    );
    let writes = names.iter().map(|name| grant(&key(name), Revision::ABSENT, 1));
    let writes = writes.map(|write| commit(&stores[0], write));
    futures_util::future::join_all(writes).await;
    names.sort_unstable();
    let all = names.len();
    for store in &stores {
        // What another handle wrote may take a moment.
        eventually("every key is listed", async || pages(store, "", 1000).await.len() == all).await;
        for (prefix, limit) in
            [("a/", 10), ("a/", 500), ("", 99), ("", 1), ("a/1", 7), ("nothing", 3), ("é", 2)]
        {
            let wanted: Vec<&String> = names.iter().filter(|n| n.starts_with(prefix)).collect();
            let seen = pages(store, prefix, limit).await;
            let seen: Vec<_> = seen.iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(seen, wanted, "prefix {prefix:?}, {limit} a page");
        }
        let page = async |prefix: &str, after: &str, limit| {
            let after = Some(after.to_owned());
            let page = Range { prefix: prefix.to_owned(), after, limit };
            let page = soon(store.scan(page)).await.expect("a page");
            page.into_iter().map(|(key, _): (Key, _)| key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(page("a/", "A", 1).await, ["a/0"], "after what comes before the prefix");
        assert!(page("a/", "b", 1).await.is_empty(), "after all of the prefix");
        assert_eq!(page("", "a/148", 2).await, ["a/149", "a/15"], "byte order, not number order");
        assert!(page("", "\u{10ffff}", 10).await.is_empty());
        assert!(page("", "", 0).await.is_empty());
    }
}

/// Also when the other handle never saw the key, and when it has it in a cache.
pub async fn a_read_sees_what_any_handle_committed(subject: &impl Subject) {
    let stores = two(subject).await;
    for n in 0..20 {
        let key = key(&format!("fresh/{n}"));
        assert!(found(&stores[1], &key).await.is_none());
        let mut highest = Revision::ABSENT;
        for seq in 1..=4 {
            let (writer, reader) = (seq as usize % 2, (seq as usize + 1) % 2);
            let write = grant(&key, highest, seq);
            let record = write.record.clone();
            highest = commit(&stores[writer], write).await;
            assert_eq!(sound(&stores[reader], &key).await, (highest, record.clone()));
            assert_eq!(sound(&stores[writer], &key).await, (highest, record));
            let own = pages(&stores[writer], key.as_str(), 5).await;
            let [(_, own)] = &own[..] else { panic!("{} listed", own.len()) };
            assert_eq!(own.revision, highest, "who wrote it lists it");
        }
    }
}

/// The state of every key is known at every moment, and after the store was opened again: to the store, if it keeps
/// count, or else to whoever scans it.
pub async fn keys_are_counted_as_they_change(subject: &impl Subject) {
    let stores = two(subject).await;
    let mut shapes = Shapes(Chance::new(seed("census")));
    let mut records = BTreeMap::<Key, (Revision, Arc<Record>)>::new();
    let counts = async |store: &Arc<dyn LeaseStore>,
                        records: &BTreeMap<Key, (Revision, Arc<Record>)>| {
        let counted = match store.census(5) {
            Some(counted) => counted,
            None => {
                let found = pages(store, "", 100).await.into_iter();
                count(found.filter_map(|(key, found)| Some((key, found.record.ok()?))))
            }
        };
        counted == count(records.iter().map(|(key, (_, record))| (key.clone(), record.clone())))
    };
    for n in 0..200 {
        let key = key(&format!("counted/{}", shapes.below(40)));
        let store = &stores[n % 2];
        match records.remove(&key) {
            Some((expected, _)) if shapes.below(4) == 0 => {
                let forget = async || soon(store.forget(&key, expected)).await == Ok(true);
                eventually("it is forgotten", forget).await;
            }
            before => {
                let expected = before.map_or(Revision::ABSENT, |(revision, _)| revision);
                let record = Arc::new(shapes.record());
                let record_there = record.clone();
                // DynamoDB finds a new key by its change.
                let changes = vec![change(ChangeKind::Granted, n as u64 + 1)];
                let write = Write { key: key.clone(), expected, record, changes };
                records.insert(key, (commit(store, write).await, record_there));
            }
        }
        if n % 20 == 0 {
            let other = &stores[(n + 1) % 2];
            eventually("it counts", async || counts(store, &records).await).await;
            eventually("the other counts", async || counts(other, &records).await).await;
        }
    }
    commit(&stores[0], grant(&Key::of_session(nonce()), Revision::ABSENT, 1)).await;
    eventually("sessions are not counted", async || counts(&stores[0], &records).await).await;
    let again = subject.open().await;
    eventually("what is opened counts", async || counts(&again, &records).await).await;
}

/// A census of these records that names up to five keys.
fn count(records: impl Iterator<Item = (Key, Arc<Record>)>) -> Counted {
    let mut counted = Counted::default();
    for (key, record) in records.filter(|(key, _)| !key.is_internal()) {
        let states = &mut counted.states;
        *match record.state {
            KeyState::Held => &mut states.held,
            KeyState::Free => &mut states.free,
            KeyState::Offered => &mut states.offered,
            KeyState::Cooling => &mut states.cooling,
            KeyState::Fencing => &mut states.fencing,
        } += 1;
        if record.condition().fence_failed && counted.failed.len() < 5 {
            counted.failed.push((key, record.ended_at_ms()));
        } else if record.condition().fence_failed {
            counted.more_failed += 1;
        }
    }
    counted
}
