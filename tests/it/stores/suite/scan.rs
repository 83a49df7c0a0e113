//! Scans and reads.

use tenure::{
    lease::{Key, Revision},
    store::Range,
};

use crate::stores::{
    lab::{commit, eventually, found, grant, key, pages, soon, sound},
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
