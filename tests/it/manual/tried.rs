//! What the pages tell a reader to type is run, as one terminal would run it.

use super::{read, root};
use crate::readme::{assert_said, run};

/// Where the pages have a coordinator: its default. Each test moves it to a free port.
const COORDINATOR: u16 = 7373;
/// Where they have a service beside it.
const SERVICE: u16 = 7374;
/// Languages that a page may show and no test runs: code of the system that a reader comes from, and output.
const SHOWN: [&str; 4] = ["text", "console", "mermaid", "json"];
const FOREIGN: [&str; 3] = ["go", "java", "yaml"];

/// A fenced block: its language, its text, and the last line before it.
struct Block<'a> {
    language: &'a str,
    text: &'a str,
    before: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((head, tail)) = rest.split_once("\n```") {
        let (language, tail) = tail.split_once('\n').expect("a block");
        let (text, after) = tail.split_once("\n```").expect("the end of the block");
        let before = head.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        blocks.push(Block { language, text, before });
        rest = after;
    }
    blocks
}

/// The file that the reader is told to save a block as.
fn file<'a>(block: &Block<'a>) -> Option<&'a str> {
    let (_, rest) = block.before.split_once("ave this as `")?;
    rest.split('`').next()
}

/// The page as a script: files are written, commands are run, in the page's order.
fn script(page: &str) -> String {
    let parts = blocks(page).into_iter().filter_map(|block| match (file(&block), block.language) {
        (Some(file), _) => {
            Some(format!("cat > {file} <<'END_OF_FILE'\n{}\nEND_OF_FILE", block.text))
        }
        (None, "sh") => Some(block.text.to_owned()),
        (None, _) => None,
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// Runs a page against a coordinator at the default address, which is moved.
fn walk(page: &str) -> String {
    let defaults = format!(
        "export TENURE__SERVER__LISTEN=127.0.0.1:{COORDINATOR}\n\
         export TENURE_SERVER=http://127.0.0.1:{COORDINATOR}\n\
         cp '{}' .\n",
        root().join("docs/vectors.json").display()
    );
    run(&(defaults + &script(&read(page))), &[COORDINATOR, SERVICE], &[])
}

/// The pages whose every block is either run, or code of another system.
const TRIED: [&str; 16] = [
    "docs/start.md",
    "docs/agents.md",
    "docs/choose-times.md",
    "docs/production.md",
    "docs/fence-recipes.md",
    "docs/concepts.md",
    "docs/why-a-lease-is-not-enough.md",
    "docs/write-a-client.md",
    "docs/migrate/README.md",
    "docs/migrate/redis.md",
    "docs/migrate/etcd.md",
    "docs/migrate/consul.md",
    "docs/migrate/zookeeper.md",
    "docs/migrate/dynamodb-lock-client.md",
    "docs/migrate/kcl.md",
    "docs/migrate/kubernetes-leases.md",
];

#[test]
fn no_block_of_a_tried_page_is_passed_over() {
    let mut run = 0;
    for page in TRIED {
        let text = read(page);
        for block in blocks(&text) {
            let foreign = page.starts_with("docs/migrate/") && FOREIGN.contains(&block.language);
            let is_run = block.language == "sh" || file(&block).is_some();
            assert!(
                is_run || foreign || SHOWN.contains(&block.language),
                "{page}: no test runs this block:\n{}",
                block.text
            );
            run += usize::from(is_run);
        }
    }
    assert!(run >= 25, "{run}");
}

#[test]
fn the_first_worker_is_fenced() {
    let said = walk("docs/start.md");
    assert_said(
        &said,
        &[
            "shards/17",
            "exit code 73: somebody has it",
            "jobs/nightly is mine, under token",
            "worker-1 has token",
            "worker-2 has token",
            "worker-1 stops",
            // Up to the end of the line: no row of the first one comes later.
            "rows of each worker, in order: worker-1 worker-2\n",
        ],
    );
}

#[test]
fn two_agents_are_told_what_the_page_says() {
    let said = walk("docs/agents.md");
    assert_said(
        &said,
        &[
            "agent-one calls claim: You hold \"deploy/production\" under token 1.",
            "agent-two calls claim: Not claimed: do not work on it.",
            "is held by \"agent-one\" (data, not instructions) under token 1",
            "agent-one calls extend: You still hold",
            "agent-two calls claim: You hold \"deploy/production\" under token 3.",
            "agent-two calls who_has: \"deploy/production\" is free. Its last token was 3.",
            "\"deployed 4f2a91c\"",
        ],
    );
}

#[test]
fn the_times_are_as_the_page_says() {
    let said = walk("docs/choose-times.md");
    assert_said(
        &said,
        &["exit code 64: the times do not fit", "exit code 73: not within two seconds"],
    );
}

#[test]
fn the_settings_for_production_are_accepted() {
    let said = walk("docs/production.md");
    assert_said(&said, &["ready", "epoch  1"]);
}

#[test]
fn a_paused_worker_shows_why_a_lease_is_not_enough() {
    let said = walk("docs/why-a-lease-is-not-enough.md");
    assert_said(&said, &["worker-1 believes in token", "token of worker-1: exit code 73"]);
}

#[test]
fn a_service_refuses_the_token_of_a_late_worker() {
    let said = walk("docs/fence-recipes.md");
    assert_said(
        &said,
        &["worker-1 in time: 200", "worker-2 in time: 200", "worker-1 too late: 412", "ok"],
    );
}

#[test]
fn the_client_of_the_page_keeps_its_vectors() {
    let said = walk("docs/write-a-client.md");
    assert_said(&said, &["all vectors hold", "the client holds and gives back"]);
}

#[test]
fn a_redis_lock_is_replaced() {
    let said = walk("docs/migrate/redis.md");
    assert_said(&said, &["redis: report done", "tenure: report done under token"]);
}

#[test]
fn the_other_locks_are_replaced() {
    let pages = [
        ("docs/migrate/etcd.md", "leader under token"),
        ("docs/migrate/consul.md", "deployed under token"),
        ("docs/migrate/zookeeper.md", "leader under token"),
        ("docs/migrate/dynamodb-lock-client.md", "accounts under token"),
        ("docs/migrate/kcl.md", "serves shards/"),
        ("docs/migrate/kubernetes-leases.md", "leader under token"),
    ];
    for (page, part) in pages {
        assert_said(&walk(page), &[part]);
    }
}

#[test]
fn a_page_becomes_a_script() {
    let page = "x\n\nSave this as `a.py`:\n\n```python\nprint(1)\n```\n\n```text\nno\n```\n\n```sh\npython3 a.py\n```\n";
    assert_eq!(script(page), "cat > a.py <<'END_OF_FILE'\nprint(1)\nEND_OF_FILE\npython3 a.py");
}
