//! The file itself.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::backup::node::Place;

/// A store with three keys and its backup.
async fn backed_up() -> (Place, String) {
    let place = Place::embedded();
    let file = place.file("backup.jsonl");
    let node = place.serve().await;
    for key in ["a", "b", "c"] {
        node.acquire_and_release(key).await;
    }
    node.stop().await;
    place.tenure(&["backup", "--file", &file, "--output", "json"]).json();
    (place, file)
}

#[tokio::test]
async fn it_is_its_owners_alone_is_not_overwritten_and_is_the_same_on_stdout() {
    let (place, file) = backed_up().await;
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds the secret");
    let content = fs::read_to_string(&file).expect("text");
    place.tenure(&["backup", "--file", &file]).refused(1, &["is not overwritten"]);
    assert_eq!(fs::read_to_string(&file).expect("text"), content);
    let said = place.tenure(&["backup"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let keys = |text: &str| text.lines().skip(1).take(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((said.out.lines().count(), keys(&said.out)), (5, keys(&content)));
}

#[tokio::test]
async fn whatever_is_changed_or_missing_it_is_refused_and_nothing_is_written() {
    let (place, file) = backed_up().await;
    let content = fs::read_to_string(&file).expect("text");
    let lines: Vec<&str> = content.lines().collect();
    let without = |missing: usize| {
        let kept = lines.iter().enumerate().filter(|(n, _)| *n != missing).map(|(_, line)| *line);
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    let digit = content.find("\"secret\":\"").expect("the secret") + 12;
    let mut secret = content.clone().into_bytes();
    secret[digit] = if secret[digit] == b'0' { b'1' } else { b'0' };
    let spoiled = [
        ("nothing", String::new(), "cut off"),
        ("no header", without(0), "header"),
        ("a key is missing", without(2), "checksum"),
        ("no trailer", without(4), "cut off"),
        ("half a line", content[..content.len() - 7].to_owned(), "cut off"),
        ("another secret", String::from_utf8(secret).expect("text"), "checksum"),
        ("another key", content.replace("\"key\":\"b\"", "\"key\":\"x\""), "checksum"),
        (
            "another version",
            content.replace("\"tenure_backup\":1", "\"tenure_backup\":2"),
            "version 2",
        ),
        ("something else", "{\"a\": 1}\n".to_owned(), "header"),
    ];
    let target = Place::embedded();
    for (what, text, word) in spoiled {
        assert_ne!(text, content, "{what}");
        let spoiled = place.file("spoiled.jsonl");
        fs::write(&spoiled, text).expect("written");
        let said = target.tenure(&["restore", "--file", &spoiled, "--raise-epoch"]);
        said.refused(1, &["is no backup that can be restored", word]);
        assert!(!target.data().exists(), "{what}");
    }
    target.tenure(&["restore", "--file", "absent", "--raise-epoch"]).refused(1, &["absent"]);
    target.tenure(&["restore", "--file", &file, "--raise-epoch", "--output", "json"]).json();
}
