//! Keys: any UTF-8 of 1 to 512 bytes names a record of its own.

use std::collections::BTreeSet;

use tenure::{clock::Chance, lease::Key, lease::MAX_KEY_BYTES, lease::Revision};

use crate::stores::{
    lab::{Listener, commit, found, grant, key, pages, seed, sound},
    shapes::Shapes,
    subject::{Subject, two},
};

/// Writes each key, and demands that each has its own record, everywhere.
async fn each_has_its_own(subject: &impl Subject, names: BTreeSet<String>) {
    let stores = two(subject).await;
    let mut listener = Listener::new(&stores[1]);
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    let mut written = Vec::new();
    for key in &keys {
        let nobody = found(&stores[0], key).await;
        assert!(nobody.is_none(), "{key:?} is taken for another: {nobody:?}");
        let write = grant(key, Revision::ABSENT, 1);
        let record = write.record.clone();
        written.push((commit(&stores[0], write).await, record));
    }
    for (key, written) in keys.iter().zip(&written) {
        assert_eq!(sound(&stores[1], key).await, *written, "{key:?}");
    }
    let scanned = pages(&stores[0], "", 7).await;
    let scanned: Vec<&str> = scanned.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(scanned, names.iter().map(String::as_str).collect::<Vec<_>>());
    listener.until(&stores[1], keys.len()).await;
    let heard: BTreeSet<String> =
        listener.heard.iter().map(|change| change.key.as_str().to_owned()).collect();
    assert_eq!(heard, names, "events name the keys as they are");
    let again = subject.open().await;
    for (key, written) in keys.iter().zip(&written) {
        assert_eq!(sound(&again, key).await, *written, "{key:?}, opened again");
    }
}

pub async fn any_key_has_a_record_of_its_own(subject: &impl Subject) {
    let mut shapes = Shapes(Chance::new(seed("keys")));
    let mut names: BTreeSet<String> = (0..60).map(|_| shapes.text(MAX_KEY_BYTES)).collect();
    names.remove("");
    let long = "k".repeat(MAX_KEY_BYTES);
    for end in ["a", "b", ".", "*", ">", "/", " "] {
        names.insert(format!("{}{end}", &long[1..]));
    }
    // Prefixes of each other.
    names.extend((1..=40).map(|n| "p".repeat(n)));
    names.extend((1..=8).map(|n| "dir/".repeat(n)));
    names.insert(long);
    each_has_its_own(subject, names).await;
}

/// Keys that some encoding, normalisation or wildcard could take for each other.
const ALIKE: [&str; 62] = [
    "a/b", "a.b", "a b", "a_b", "a-b", "a=b", "a%2Fb", "a%2fb", "a=2Fb", "a_2Fb", "a\\b", "a//b",
    "a/./b", "a/b/", "/a/b", "a/b ", " a/b", "A/B", "a/*", "a/>", "*", ">", ".", "..", "...", "/",
    "//", "#", "$", "$JS", "_", "__", "=", "==", "%", "%25", "%2525", "~", "-", "é", "e\u{301}",
    "E\u{301}", "ß", "ss", "ſ", "ﬁ", "fi", "İ", "i\u{307}", "\u{a0}", " ", "  ", "\u{200b}",
    "\u{feff}", "🦀", "8J+mgA", "8J-mgA", "61", "YQ", "a", "null", "meta",
];

pub async fn keys_that_look_alike_are_different_keys(subject: &impl Subject) {
    each_has_its_own(subject, ALIKE.iter().map(|&name| name.to_owned()).collect()).await;
}
