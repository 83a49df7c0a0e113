//! `docs/SUMMARY.md` names every page once, and links work on GitHub and in the site.

use std::{collections::BTreeSet, path::Path, process::Command};

use super::{headings, links, pages, read, root, target};

const SUMMARY: &str = "docs/SUMMARY.md";

/// The pages of the site, in the order of the contents.
fn contents() -> Vec<String> {
    links(&read(SUMMARY)).into_iter().map(|(_, link)| target(SUMMARY, &link).0).collect()
}

#[test]
fn the_contents_name_every_page_once() {
    let named = contents();
    let once: BTreeSet<_> = named.iter().cloned().collect();
    assert_eq!(once.len(), named.len(), "a page is named twice: {named:?}");
    let absent: Vec<_> = pages().into_iter().filter(|page| !once.contains(page)).collect();
    assert!(absent.is_empty(), "{SUMMARY} does not name {absent:?}");
    for page in &named {
        assert!(root().join(page).is_file(), "{SUMMARY} names {page}");
    }
    let index: BTreeSet<_> = links(&read("docs/README.md"))
        .into_iter()
        .map(|(_, link)| target("docs/README.md", &link).0)
        .collect();
    let own = pages().into_iter().filter(|page| page != "docs/README.md");
    let absent: Vec<_> = own.filter(|page| !index.contains(page)).collect();
    assert!(absent.is_empty(), "docs/README.md does not name {absent:?}");
}

#[test]
fn every_link_of_the_manual_leads_to_a_file_and_a_heading() {
    let mut checked = 0;
    for page in contents() {
        for (_, link) in links(&read(&page)) {
            let (file, heading) = target(&page, &link);
            let path = root().join(&file);
            assert!(path.exists(), "{page} links to {link}");
            let Some(heading) = heading else { continue };
            assert!(headings(&read(&file)).contains(&heading), "{page} links to {link}");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// What `make docs-site` hands to mdBook: there, too, each link leads to a page, a file or a list of files.
#[test]
fn every_link_works_in_the_site() {
    let out = tempfile::tempdir().expect("a directory");
    let status = Command::new("python3")
        .arg(root().join("docs/site/stage.py"))
        .arg(out.path())
        .status()
        .expect("python3 runs");
    assert!(status.success());
    let src = out.path().join("src");
    let staged = |path: &str| std::fs::read_to_string(src.join(path)).expect("a staged page");
    let summary = links(&staged("SUMMARY.md"));
    let named: BTreeSet<_> =
        summary.into_iter().map(|(_, link)| target("SUMMARY.md", &link).0).collect();
    assert_eq!(named, contents().into_iter().collect::<BTreeSet<_>>());
    for page in &named {
        for (_, link) in links(&staged(page)) {
            let (file, _) = target(page, &link);
            let path = src.join(&file);
            // mdBook makes a page of what the contents name, and of nothing else.
            let is_page = Path::new(&file).extension().is_some_and(|kind| kind == "md");
            assert!(
                !is_page || named.contains(&file),
                "{page} links to {link}, no page of the site"
            );
            let shown = path.is_file() || path.join("index.html").is_file();
            assert!(shown, "{page} links to {link}, which the site does not have");
        }
    }
    assert!(out.path().join("book.toml").is_file());
}
