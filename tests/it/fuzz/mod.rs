//! The fuzz targets without a fuzzer: on the committed seeds, and on random changes of them.
//!
//! `FUZZ_SEED` and `FUZZ_INPUTS` say which changes and how many; a failure prints the input, and
//! `fuzz/regressions/<target>` is where it is kept forever. `make fuzz` runs the same targets under
//! libFuzzer. With `UPDATE=1` the seeds of the target `record`, which are no text, are written anew.

mod mutate;
mod records;
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use mutate::Mutator;
use targets::Target;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The seeds of a target, and what once made it fail.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    for folder in ["corpus", "regressions"] {
        let Ok(entries) = fs::read_dir(root().join(folder).join(name)) else { continue };
        paths.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    // What a fuzzer found here is not committed, and no seed.
    paths.retain(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with("seed-") || path.to_string_lossy().contains("/regressions/")
    });
    paths.sort();
    assert!(paths.len() >= 5, "{name} has seeds");
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn run(name: &str, target: Target, inputs_by_default: u64) {
    let seeds = inputs(name);
    for seed in &seeds {
        attempt(name, target, seed);
    }
    let seed = number("FUZZ_SEED", 1);
    let count = number("FUZZ_INPUTS", inputs_by_default);
    println!("{name}: FUZZ_SEED={seed} FUZZ_INPUTS={count}");
    let mut mutator = Mutator::new(seed, &seeds);
    for _ in 0..count {
        attempt(name, target, &mutator.input());
    }
}

fn attempt(name: &str, target: Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        println!("{name} fails on {:?} = {input:?}", String::from_utf8_lossy(input));
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn records_are_read_as_they_were_written_or_refused() {
    run("record", targets::record, 60_000);
}

#[test]
fn keys_are_written_in_one_way_and_read_back() {
    run("key", targets::key, 60_000);
}

#[test]
fn cursors_are_written_in_one_way_and_read_back() {
    run("cursor", targets::cursor, 60_000);
}

#[test]
fn bodies_are_taken_as_documented_or_refused_by_name() {
    run("body", targets::body, 40_000);
}

#[test]
fn settings_are_refused_with_reasons_or_shown_and_read_again() {
    run("settings", targets::settings, 3_000);
}

#[test]
fn every_target_is_run() {
    let names = targets::TARGETS.map(|(name, _)| name);
    assert_eq!(names, ["record", "key", "cursor", "body", "settings"]);
    for name in names {
        let path = root().join("fuzz_targets").join(format!("{name}.rs"));
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn the_seeds_of_records_are_records_of_this_program() {
    for (name, bytes) in records::seeds() {
        let path = root().join("corpus/record").join(name);
        if std::env::var_os("UPDATE").is_some() {
            fs::create_dir_all(path.parent().expect("a folder")).expect("can be made");
            fs::write(&path, &bytes).expect("can be written");
        }
        let kept = fs::read(&path).expect("a seed");
        assert!(kept == bytes, "{name} is not what the program writes: UPDATE=1 writes it anew");
    }
}
