//! `llms.txt` is written from the contents of the manual: each page with its first sentence. `UPDATE=1` writes it anew.

use std::fmt::Write as _;

use super::{links, prose, read, root, target};

const HEAD: &str = "# tenure\n\n\
    > A lease manager: every shard, job or singleton has exactly one owner, proven by a fencing token. Workers use HTTP \
    and JSON.\n\n\
    Three rules for a program that uses it. Count `valid_for_ms` from before the request was sent. Send `token` with \
    every write, so that the resource can refuse a lower one. Never show `lease_id` to others: it is the secret that \
    keeps the lease.\n\n\
    The whole HTTP API is [openapi.json](openapi.json); every setting is in [tenure.toml](config/tenure.toml).\n";

/// The first sentence of a page's first paragraph, without marks of Markdown.
fn first_sentence(page: &str) -> String {
    let text = prose(page);
    let is_prose = |part: &&str| {
        let part = part.trim_start();
        !part.is_empty() && !part.starts_with(['#', '|', '-', '<'])
    };
    let paragraph = text.split("\n\n").find(is_prose).unwrap_or_default().trim().replace('\n', " ");
    let sentence = paragraph.split_once(". ").map_or(&*paragraph, |(first, _)| first);
    let mut out = String::new();
    let mut rest = sentence.trim_end_matches(['.', ':']);
    // A link is its words.
    while let Some((before, shown, after)) = rest.split_once('[').and_then(|(before, after)| {
        let (shown, after) = after.split_once("](")?;
        Some((before, shown, after.split_once(')')?.1))
    }) {
        out.push_str(before);
        out.push_str(shown);
        rest = after;
    }
    out.push_str(rest);
    out.replace("**", "") + "."
}

fn generated() -> String {
    let summary = read("docs/SUMMARY.md");
    let mut out = HEAD.to_owned();
    for line in summary.lines().skip(1) {
        if let Some(part) = line.strip_prefix("# ") {
            let _ = write!(out, "\n## {part}\n\n");
        }
        for (title, link) in links(&format!("\n{line}\n")) {
            let (file, _) = target("docs/SUMMARY.md", &link);
            if file != "README.md" && file != "docs/README.md" {
                let _ = writeln!(out, "- [{title}]({file}): {}", first_sentence(&read(&file)));
            }
        }
    }
    out
}

#[test]
fn the_committed_llms_txt_is_the_generated_one() {
    let text = generated();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root().join("llms.txt"), &text).expect("llms.txt can be written");
    }
    assert!(read("llms.txt") == text, "llms.txt is old: run `make openapi`");
}

#[test]
fn a_first_sentence_is_that_of_the_first_paragraph() {
    let page =
        "# Head\n\n| a | b |\n\nA **lease** says [who](x.md) works,\nand `when`. More.\n\nNo.\n";
    assert_eq!(first_sentence(page), "A lease says who works, and `when`.");
    assert_eq!(first_sentence("# Head\n\nThese are:\n\n- one\n"), "These are.");
}
