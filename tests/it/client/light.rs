//! The light build is light.

use std::process::Command;

/// What nobody needs who only holds leases.
const HEAVY: [&str; 13] = [
    "actix",
    "actix-web",
    "async-nats",
    "aws-config",
    "aws-sdk-dynamodb",
    "clap",
    "config",
    "dashmap",
    "metrics",
    "mimalloc",
    "tokio-postgres",
    "tracing-subscriber",
    "utoipa",
];
/// Packages of a light build on this platform, ours included; more than that is worth a thought.
const MOST: usize = 150;

#[test]
fn the_client_alone_needs_nothing_of_the_server() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--no-default-features", "--features", "client"])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&tree.stderr);
    assert!(tree.status.success(), "{said}");
    let text = String::from_utf8_lossy(&tree.stdout);
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    names.dedup();
    assert!(names.contains(&"tenure") && names.contains(&"reqwest"), "{names:?}");
    for heavy in HEAVY {
        assert!(!names.contains(&heavy), "{heavy} is in the light build");
    }
    assert!(names.len() <= MOST, "{} packages: {names:?}", names.len());
}
