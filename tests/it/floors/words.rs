//! Code and manual use the words of the field.

use std::fs;

use super::{files, root};

/// Words that the field does not use for what they once meant here, and phrases that have to be read twice.
const STALE_WORDS: [&str; 35] = [
    "obituary",
    "warden",
    "reaper",
    "courier",
    "keeper",
    "kin",
    "deed",
    "deeds",
    "staff",
    "papers",
    "office",
    "hasty",
    "stranded",
    "sin",
    "sins",
    "sinful",
    "aftermath",
    "bond",
    "bonds",
    "doubts",
    "doubted",
    "doubtful",
    "survey",
    "surveys",
    "surveyed",
    "burial",
    "buried",
    "bury",
    "ward",
    "wards",
    "lest",
    "for ever",
    "nobody knows",
    "is looked for",
    "in earnest",
];

/// Names that others gave, or know.
const PROPER_NAMES: [&str; 2] = ["ZooKeeper", "TENURE_WARD"];

/// A text in lower case, with a space at each underscore and at each hump of a name.
fn spaced(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let next_is_small = rest.peek().is_some_and(|next| next.is_lowercase());
        let begins_a_hump = c.is_uppercase()
            && (before.is_lowercase()
                || before.is_numeric()
                || before.is_uppercase() && next_is_small);
        if begins_a_hump {
            spaced.push(' ');
        }
        if c == '_' {
            spaced.push(' ');
        } else {
            spaced.extend(c.to_lowercase());
        }
        before = c;
    }
    spaced
}

/// The words of the list that a text has, in any case, also in names, but not as parts of longer words.
fn stale_words(text: &str) -> Vec<&'static str> {
    let own = PROPER_NAMES.iter().fold(text.to_owned(), |text, name| text.replace(name, ""));
    let text = spaced(&own);
    let whole = |at: usize, word: &str| {
        !text[..at].ends_with(char::is_alphanumeric)
            && !text[at + word.len()..].starts_with(char::is_alphanumeric)
    };
    let has = |word: &&str| text.match_indices(*word).any(|(at, _)| whole(at, word));
    STALE_WORDS.into_iter().filter(|word| has(word)).collect()
}

#[test]
fn code_and_manual_use_the_words_of_the_field() {
    let mut found = Vec::new();
    for folder in ["src", "docs", "config", "tests", "benches", "examples"] {
        files(&root().join(folder), &["rs", "md", "toml"], &mut found);
    }
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    found.extend(pages.map(|name| root().join(name)));
    // This list itself names the words.
    found.retain(|path| !path.ends_with("floors/words.rs"));
    assert!(found.len() > 600, "{}", found.len());
    let mut all = Vec::new();
    for path in found {
        let stale = stale_words(&fs::read_to_string(&path).expect("a text"));
        all.extend(stale.iter().map(|word| format!("{} says \"{word}\"", path.display())));
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn a_stale_word_is_found_in_a_sentence_and_in_a_name() {
    assert_eq!(stale_words("The Reaper's work, for ever; forwards."), ["reaper", "for ever"]);
    assert_eq!(stale_words("fn renew_for_ever()"), ["for ever"]);
    assert_eq!(stale_words("const FOR_EVER: u8"), ["for ever"]);
    assert_eq!(stale_words("lapses_buried, two_that_are_a_burial_apart"), ["burial", "buried"]);
    assert_eq!(stale_words("Event::TooLateToBury"), ["bury"]);
    assert_eq!(stale_words("struct KeeperOfTLS; enum HTTPWarden {}"), ["warden", "keeper"]);
    assert_eq!(stale_words("forever, is_forwarded, Keepers, Apache ZooKeeper"), [""; 0]);
}
