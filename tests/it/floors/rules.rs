//! Arrows between floors point down, files stay small, time and chance come from one place.

use super::sources;

/// The floors, top to bottom. A module may use its own and those below.
const FLOORS: [&[&str]; 10] = [
    &["main"],
    &["cli", "fuzzing"],
    &["http"],
    &["manager"],
    &["actor"],
    &["store", "plugin", "worker"],
    &["client"],
    &["access", "clock", "files", "settings", "telemetry", "tls"],
    &["api"],
    &["lease"],
];
/// Where actix may be used.
const ACTIX: [&str; 5] = ["actor/", "http/", "manager/open.rs", "manager/engine/", "cli/"];
/// Where the machine's own clocks may be read.
const CLOCKS: [&str; 1] = ["clock/"];
/// What the pure core must not touch.
const IMPURE: [&str; 8] = [
    "actix",
    "tokio",
    "futures_util",
    "rand",
    "std::fs",
    "std::net",
    "std::thread",
    "std::time::Instant",
];
/// Longest file, in lines.
const MAX_LINES: usize = 600;

/// The floor of a module of the crate; 0 is the top.
fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// The module that a file of `src` belongs to.
fn module_of(file: &str) -> &str {
    file.split('/').next().unwrap_or(file).trim_end_matches(".rs")
}

/// A source without its comments; strings stay, which harms nobody here.
fn without_comments(text: &str) -> String {
    let code = |line: &str| match line.find("//") {
        Some(at) if !line[..at].ends_with(':') => line[..at].to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The modules of this crate that a source names: `crate::x`, `use crate::{x, y::z}`, `tenure::x`.
fn uses(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in ["crate::", "tenure::"] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(group) => found.extend(heads_of_group(group)),
                None => found.push(head(rest)),
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The first name of each path in `{a::b, c::{d, e}, f}`, the opening brace already taken.
fn heads_of_group(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut heads) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                heads.push(head(group[start..at].trim()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.push(head(group[start..at].trim()));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads
}

fn head(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Everything that is wrong with one file of `src`.
fn faults(file: &str, text: &str) -> Vec<String> {
    let code = without_comments(text);
    let module = module_of(file);
    let test = file.contains("/tests");
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        faults.push(format!("{file} has {lines} lines; {MAX_LINES} is the end"));
    }
    if module != "lib" {
        match floor(module) {
            None => faults.push(format!("{file} is on no floor")),
            Some(mine) => faults.extend(arrows(file, module, mine, &code)),
        }
    }
    let within = |places: &[&str]| places.iter().any(|place| file.starts_with(place));
    if !test && !within(&ACTIX) && names(&code, "actix") {
        faults.push(format!("{file} uses actix, which stays in {ACTIX:?}"));
    }
    for clock in ["Instant::now", "SystemTime::now"] {
        if !within(&CLOCKS) && code.contains(clock) {
            faults.push(format!("{file} calls {clock}, which is for {CLOCKS:?} alone"));
        }
    }
    if module == "lease" {
        let impure = IMPURE.iter().filter(|name| names(&code, name));
        faults.extend(impure.map(|name| format!("{file} uses {name}; the core is pure")));
    }
    faults
}

fn arrows(file: &str, module: &str, mine: usize, code: &str) -> Vec<String> {
    let wrong = |used: &String| match floor(used) {
        // A macro, or an item of the crate's root.
        None => None,
        Some(_) if used == module => None,
        Some(theirs) if theirs > mine => None,
        // Neighbours of one floor may know each other.
        Some(theirs) if theirs == mine => None,
        Some(_) => Some(format!("{file}: an arrow points up, from {module} to {used}")),
    };
    uses(code).iter().filter_map(wrong).collect()
}

/// Whether code names a crate or path: at its beginning, and as a whole or with a suffix (`actix_web`).
fn names(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        let starts = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let path = code[at..].starts_with(&format!("{name}::")) || code[at..].contains("::");
        starts && path && matches!(after, Some(':' | '_' | ';' | ' ' | '(' | ',' | '}'))
    })
}

#[test]
fn every_arrow_points_down_and_every_rule_of_the_house_holds() {
    let sources = sources();
    assert!(sources.len() > 50, "the sources are found");
    let all: Vec<_> = sources.iter().flat_map(|(file, text)| faults(file, text)).collect();
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn an_arrow_that_points_up_is_found_however_it_is_written() {
    let up = |file: &str, text: &str| faults(file, text).iter().any(|f| f.contains("points up"));
    assert!(up("lease/key.rs", "use crate::clock::Clock;"));
    assert!(up("lease/mod.rs", "fn f() { crate::store::open() }"));
    assert!(up("actor/lease.rs", "use crate::{lease::Key, http::App};"));
    assert!(up(
        "actor/lease.rs",
        "use crate::{\n    lease::{Key, Owner},\n    manager::{Manager, any::AcquireAny},\n};"
    ));
    assert!(up("store/mod.rs", "pub(crate) use crate::actor;"));
    assert!(up("store/mod.rs", "type T = tenure::cli::Exit;"));
    assert!(up("clock/mod.rs", "impl From<crate::store::StoreError> for E {}"));
    assert!(!up("cli/serve.rs", "use crate::{http::App, lease::Key, main_thing};"));
    assert!(!up("http/mod.rs", "// use crate::cli::run\nuse crate::manager::Manager;"));
    assert!(!up("store/mod.rs", "use crate::client::Client; use crate::store::embedded;"));
    assert!(!up("worker/run.rs", "use crate::{client::Client, clock::Clock};"));
    assert!(up("client/mod.rs", "use crate::worker::guardian::Guardian;"));
    assert!(!up("http/mod.rs", "use other_crate::cli::x;"));
}

#[test]
fn the_other_rules_bite_too() {
    let found = |file: &str, text: &str, what: &str| {
        faults(file, text).iter().any(|fault| fault.contains(what))
    };
    assert!(found("lease/mod.rs", "use tokio::sync::oneshot;", "core is pure"));
    assert!(found(
        "lease/mod.rs",
        "use std::time::Instant;\nfn f(i: std::time::Instant) {}",
        "core is pure"
    ));
    assert!(found("lease/mod.rs", "let x = rand::rng();", "core is pure"));
    assert!(!found("lease/mod.rs", "let operand = brand::x();", "core is pure"));
    assert!(found("store/mod.rs", "use actix::Addr;", "uses actix"));
    assert!(found("client/mod.rs", "use actix_web::web;", "uses actix"));
    assert!(found("manager/mod.rs", "use actix::Actor;", "uses actix"));
    assert!(!found("manager/open.rs", "use actix::Actor;", "uses actix"));
    assert!(found("store/mod.rs", "let now = std::time::Instant::now();", "Instant::now"));
    assert!(found("http/mod.rs", "SystemTime::now()", "SystemTime::now"));
    assert!(!found("clock/system.rs", "SystemTime::now()", "SystemTime::now"));
    assert!(found("http/long.rs", &"x\n".repeat(601), "601 lines"));
    assert!(found("attic/mod.rs", "", "on no floor"));
}
