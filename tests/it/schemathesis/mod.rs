//! schemathesis against a live node: what `openapi.json` says is what is answered.
//!
//! Requests are made from the document, allowed ones and forbidden ones, alone and in chains along the
//! document's links, with all checks on: no 5xx, no status, content type or shape that is not documented, no
//! forbidden request that is taken, no allowed one that is refused without need.
//!
//! `SCHEMATHESIS_CASES` says how many requests at least, `SCHEMATHESIS_SEED` which.

#![allow(
    clippy::disallowed_methods,
    reason = "a test of a process from outside reads the clock that its callers would read"
)]
#![allow(dead_code, unused_imports, reason = "the harness has more than this test uses")]

use std::{path::Path, process::Command};

use crate::support::harness::Server;

/// A wait ends soon, and a pool has work.
const CONFIG: &str = r#"
[limits]
wait_max = "50ms"
[[policy]]
prefix = "jobs/"
pool = "jobs"
balance = true
"#;

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// One run of the tool; how many requests it made.
fn run(server: &Server, seed: usize, per_operation: usize) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tool = root.join(".tools/schemathesis/bin/schemathesis");
    assert!(tool.exists(), "{} is missing: `make tools` installs it", tool.display());
    let here = root.join("tests/it/schemathesis");
    let output = Command::new(tool)
        .current_dir(server.dir())
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &here)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg("--config-file")
        .arg(here.join("schemathesis.toml"))
        .arg("run")
        .arg(root.join("openapi.json"))
        .args(["--url", &format!("http://{}", server.addr)])
        .args(["--checks", "all", "--phases", "coverage,fuzzing,stateful"])
        .args(["--max-examples", &per_operation.to_string(), "--seed", &seed.to_string()])
        .args(["--generation-database", "none", "--request-timeout", "30", "--no-color"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seed {seed}:\n{said}\n{errors}");
    let cases = said.lines().find_map(|line| {
        line.trim().split_once(" generated").and_then(|(count, _)| count.parse::<usize>().ok())
    });
    cases.unwrap_or_else(|| panic!("it does not say how much it did:\n{said}"))
}

#[test]
fn the_node_answers_as_its_document_says() {
    let server = Server::configured(CONFIG);
    let wanted = number("SCHEMATHESIS_CASES", 300);
    let seed = number("SCHEMATHESIS_SEED", 1);
    let per_operation = wanted.div_ceil(40).clamp(4, 60);
    let mut cases = 0;
    for seed in seed.. {
        cases += run(&server, seed, per_operation);
        println!("seed {seed}: {cases} requests so far");
        if cases >= wanted {
            break;
        }
    }
    let said = server.said();
    assert!(!said.contains("panicked"), "{said}");
    println!("schemathesis: {cases} requests");
}
