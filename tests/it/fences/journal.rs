//! What the plugins did: each writes a line down before it ends.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Appends `microseconds key token plugin attempt outcome` in one write. It waits for the gate, if there
/// is still a place for one, and hangs no longer than a test would wait for it.
const PROGRAM: &str = r#"#!/bin/bash
note() {
    printf '%s %s %s %s %s %s\n' "${EPOCHREALTIME/[.,]/}" "$TENURE_KEY" "$TENURE_TOKEN" "$name" "$TENURE_ATTEMPT" "$1" >> "$journal"
}
name=$1 journal=$2 gate=$3
if [ "$name" = hangs ]; then
    note hangs
    exec sleep 10
fi
while [ ! -e "$gate" ] && [ -d "${gate%/*}" ]; do sleep 0.1; done
if [ "$name" = fails ] || { [ "$name" = twice ] && [ "$TENURE_ATTEMPT" -lt 3 ]; }; then
    note failed
    exit 1
fi
note confirmed
"#;

/// One try of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Microseconds since 1970.
    pub at: u64,
    pub key: String,
    pub token: u64,
    pub plugin: String,
    pub attempt: u32,
    pub outcome: String,
}

impl Line {
    pub fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [at, key, token, plugin, attempt, outcome] = words[..] else { panic!("{line:?}") };
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line:?}"));
        Self {
            at: number(at),
            key: key.to_owned(),
            token: number(token),
            plugin: plugin.to_owned(),
            attempt: attempt.parse().expect("a number"),
            outcome: outcome.to_owned(),
        }
    }
}

/// The program, what it writes, and the gate at which it waits.
#[derive(Clone, Debug)]
pub struct Journal {
    pub program: PathBuf,
    pub path: PathBuf,
    pub gate: PathBuf,
}

impl Journal {
    pub fn new(dir: &Path) -> Self {
        let journal =
            Self { program: dir.join("fence"), path: dir.join("journal"), gate: dir.join("gate") };
        fs::write(&journal.program, PROGRAM).expect("a program");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&journal.program, mode).expect("executable");
        journal
    }

    pub fn open_gate(&self) {
        fs::write(&self.gate, "").expect("a gate");
    }

    pub fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        // The last line may be under way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(Line::parse).collect()
    }
}
