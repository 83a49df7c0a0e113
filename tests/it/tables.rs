//! `docs/coming-from.md` names a test in each row, and so do the threats of `docs/security.md`: here it is seen to that
//! these tests exist.

use std::{collections::BTreeMap, fs, path::Path};

const PAGE: &str = "docs/coming-from.md";
/// Stands before a test that is still to be written.
const OPEN: &str = "TEST?";
/// A row that nothing can show: what is left out.
const NONE: &str = "–";
const VERDICTS: [&str; 3] = ["kept", "improved", "left out"];
const HEAD: [&str; 4] = ["what it promises or does", "here", "how, or why", "test"];

/// One row of a table.
struct Row<'a> {
    line: usize,
    table: &'a str,
    cells: Vec<&'a str>,
}

/// The rows of all tables, without heads and rules.
fn rows(page: &str) -> Vec<Row<'_>> {
    let (mut table, mut rows) = ("", Vec::new());
    for (at, line) in page.lines().enumerate() {
        table = line.strip_prefix("## ").unwrap_or(table);
        let Some(inner) = line.strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<_> = inner.split('|').map(str::trim).collect();
        if cells != HEAD && !inner.starts_with(" ---") {
            rows.push(Row { line: at + 1, table, cells });
        }
    }
    rows
}

/// Whether a source has a function of this name; `read` gives a file of the repository.
fn exists(test: &str, read: &impl Fn(&str) -> Option<String>) -> bool {
    let Some((file, name)) = test.split_once("::") else { return false };
    let file = if file.starts_with("src/") { file.to_owned() } else { format!("tests/it/{file}") };
    let declared = |line: &str| {
        let (before, rest) = line.split_once("fn ").unwrap_or(("//", ""));
        let is_code = !before.contains(['/', '"']);
        is_code && rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
    };
    read(&file).is_some_and(|source| source.lines().any(declared))
}

/// What is wrong with a row, and how many of its tests are still to be written.
fn judge(row: &Row<'_>, read: &impl Fn(&str) -> Option<String>) -> (Vec<String>, usize) {
    let fault = |what: &str| format!("{PAGE}:{}: {what}", row.line);
    let [_, verdict, _, tests] = row.cells[..] else {
        return (vec![fault("a row has four cells")], 0);
    };
    let mut faults = Vec::new();
    if !VERDICTS.contains(&verdict) {
        faults.push(fault(&format!("{verdict:?} is none of {VERDICTS:?}")));
    }
    if tests.is_empty() || tests == NONE {
        if tests.is_empty() || verdict != "left out" {
            faults.push(fault("names no test"));
        }
        return (faults, 0);
    }
    let (mut open, mut pending) = (0, false);
    for word in tests.split_whitespace() {
        let name = word.trim_matches('`');
        if word == OPEN {
            (open, pending) = (open + 1, true);
        } else if !std::mem::take(&mut pending) && !exists(name, read) {
            faults.push(fault(&format!("there is no test {name}")));
        }
    }
    (faults, open)
}

fn repository(file: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).ok()
}

#[test]
fn every_test_that_a_table_names_exists() {
    let page = repository(PAGE).expect("the page");
    let mut tables: BTreeMap<&str, usize> = BTreeMap::new();
    let mut faults = Vec::new();
    for row in rows(&page) {
        *tables.entry(row.table).or_default() += 1;
        faults.extend(judge(&row, &repository).0);
    }
    println!("{tables:?}");
    assert!(tables.len() == 5 && tables.values().all(|&rows| rows > 10), "{tables:?}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_test_that_a_threat_names_exists() {
    let page = repository("docs/security.md").expect("the page");
    let rows = page.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    let named = rows.flat_map(|(at, line)| {
        let words = line.split('`').skip(1).step_by(2);
        words.filter(|word| word.contains(".rs::")).map(move |word| (at + 1, word))
    });
    let named: Vec<_> = named.collect();
    assert!(named.len() > 40, "{named:?}");
    let absent: Vec<_> = named.iter().filter(|(_, test)| !exists(test, &repository)).collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn no_row_waits_for_its_test() {
    let page = repository(PAGE).expect("the page");
    let open: Vec<_> = rows(&page)
        .iter()
        .filter(|row| judge(row, &repository).1 > 0)
        .map(|row| format!("{PAGE}:{}: {}", row.line, row.cells[3]))
        .collect();
    assert!(open.is_empty(), "{} rows:\n{}", open.len(), open.join("\n"));
}

#[test]
fn what_is_wrong_with_a_row_is_found() {
    let source = "async fn long_name() {}\n// fn only_said\n    pub fn short(x: u8) {}\n";
    let read =
        |file: &str| (file == "tests/it/a.rs" || file == "src/a.rs").then(|| source.to_owned());
    let found = |line: &str| -> (usize, usize) {
        let rows = rows(line);
        assert_eq!(rows.len(), 1, "{line}");
        let (faults, open) = judge(&rows[0], &read);
        (faults.len(), open)
    };
    assert_eq!(found("| x | kept | | `a.rs::long_name` `src/a.rs::short` |"), (0, 0));
    assert_eq!(found("| x | left out | why | – |"), (0, 0));
    assert_eq!(found("| x | kept | | TEST? `b.rs` `a.rs::short` |"), (0, 1));
    for wrong in [
        "| x | kept | | – |",
        "| x | kept | | |",
        "| x | left out | why | |",
        "| x | somehow | | `a.rs::short` |",
        "| x | kept | `a.rs::short` |",
        "| x | kept | | `b.rs::short` |",
        "| x | kept | | `a.rs::long` |",
        "| x | kept | | `a.rs::name` |",
        "| x | kept | | `a.rs::only_said` |",
        "| x | kept | | `a.rs` |",
        "| x | kept | | `a.rs::long_name` `a.rs::absent` |",
    ] {
        assert_eq!(found(wrong), (1, 0), "{wrong}");
    }
}
