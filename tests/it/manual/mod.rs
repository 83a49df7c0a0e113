//! The manual: its contents are complete, its links lead somewhere, generated pages are up to date, and what a reader
//! is told to type works.

mod cli;
mod codes;
mod hostile;
mod index;
mod site;
mod tried;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every page below `docs`, as a path in the repository, without the contents themselves.
fn pages() -> Vec<String> {
    let mut found = Vec::new();
    walk(&root().join("docs"), &mut found);
    let names = found.iter().map(|path| path.strip_prefix(root()).expect("inside"));
    let mut names: Vec<_> = names.map(|path| path.to_str().expect("UTF-8").to_owned()).collect();
    names.retain(|name| name != "docs/SUMMARY.md");
    names.sort();
    names
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
}

/// The text without its fenced blocks.
fn prose(text: &str) -> String {
    let parts = format!("\n{text}");
    let parts = parts.split("\n```").step_by(2);
    parts
        .map(|part| part.split_once('\n').map_or("", |(_, rest)| rest))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The links of a text within the repository: what is shown, and where it leads.
fn links(text: &str) -> Vec<(String, String)> {
    let text = prose(text);
    let ends = text.match_indices("](").map(|(at, _)| at);
    let links = ends.filter_map(|at| {
        let shown = text[..at].rsplit('[').next()?;
        let target = text[at + 2..].split(')').next()?;
        let outside = target.starts_with("http") || target.starts_with("mailto:");
        (!outside).then(|| (shown.to_owned(), target.to_owned()))
    });
    links.collect()
}

/// Where a link of a page leads: a path in the repository, and the heading's name.
fn target(page: &str, link: &str) -> (String, Option<String>) {
    let (file, heading) = link
        .split_once('#')
        .map_or((link, None), |(file, heading)| (file, Some(heading.to_owned())));
    if file.is_empty() {
        return (page.to_owned(), heading);
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts.join("/"), heading)
}

/// The names by which links reach the headings of a page, as GitHub and mdBook make them.
fn headings(text: &str) -> Vec<String> {
    let text = prose(text);
    let heads = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    heads.map(name).collect()
}

#[test]
fn links_and_headings_are_read_as_a_browser_reads_them() {
    let text = "# A `b` c-d, e!\n\nx [one](a.md#b) y [two](../c/d.md)\n\n```sh\n[no](no.md)\n# no\n```\n\n[three](#e) \
                [out](https://example.com)\n";
    assert_eq!(headings(text), ["a-b-c-d-e"]);
    let found: Vec<_> = links(text).into_iter().map(|(_, target)| target).collect();
    assert_eq!(found, ["a.md#b", "../c/d.md", "#e"]);
    let there = |link| target("docs/migrate/x.md", link);
    assert_eq!(there("y.md#z"), ("docs/migrate/y.md".to_owned(), Some("z".to_owned())));
    assert_eq!(there("../../README.md"), ("README.md".to_owned(), None));
    assert_eq!(there("#z"), ("docs/migrate/x.md".to_owned(), Some("z".to_owned())));
}
