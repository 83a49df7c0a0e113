//! Every kind of damage to every file of a store. The store must open with everything acknowledged, or refuse
//! and say what to do.
//!
//! `ROT` is how many damages are tried for each kind of end (default 400). `ROT=all` damages every byte of
//! every file once. `SEED` replays a run.
//! once; `SEED` replays.

use std::{fs, path::PathBuf};

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    damage::{Left, Original, original},
    *,
};
use crate::store::embedded::segment::{HEADER, Segment};

const WRITES: u64 = 130;

/// The kinds of damage to the files of a store.
const KINDS: [&str; 9] = [
    "a flipped bit",
    "zeros",
    "noise",
    "cut off",
    "longer",
    "zeros to the end",
    "removed",
    "another file's content",
    "swapped",
];

fn files(dir: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = names.filter(|path| !path.ends_with("LOCK")).collect();
    files.sort();
    files
}

fn copy(from: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir_in(simulated::place()).unwrap();
    for path in files(from) {
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// Damages a file. Returns which files are involved, and a description.
fn damage(kind: &str, dir: &Path, rng: &mut StdRng) -> ([PathBuf; 2], String) {
    let files = files(dir);
    let path = files[rng.random_range(0..files.len())].clone();
    let other = files[rng.random_range(0..files.len())].clone();
    let mut bytes = fs::read(&path).unwrap();
    // Half of the damages are where the log ends, or at the beginning of a file.
    let used = bytes.iter().rposition(|b| *b != 0).map_or(1, |last| last + 1);
    let at = match rng.random_range(0..4) {
        0 => rng.random_range(0..bytes.len()),
        1 => rng.random_range(0..bytes.len().min(HEADER as usize)),
        _ => rng.random_range(used.saturating_sub(700)..used),
    };
    let to = (at + rng.random_range(1..1_500)).min(bytes.len());
    match kind {
        "a flipped bit" => bytes[at] ^= 1 << rng.random_range(0..8),
        "zeros" => bytes[at..to].fill(0),
        "noise" => bytes[at..to].iter_mut().for_each(|byte| *byte = rng.random()),
        "cut off" => bytes.truncate(at),
        "longer" => bytes.resize(bytes.len() + at + 1, 0),
        "zeros to the end" => bytes[at..].fill(0),
        "removed" => {}
        "another file's content" => bytes = fs::read(&other).unwrap(),
        "swapped" => {
            let theirs = std::mem::replace(&mut bytes, fs::read(&other).unwrap());
            fs::write(&other, theirs).unwrap();
        }
        _ => unreachable!("{kind}"),
    }
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let what = format!("{kind}: {} from {at} to {to}, with {}", name(&path), name(&other));
    if kind == "removed" { fs::remove_file(&path) } else { fs::write(&path, bytes) }.unwrap();
    ([path, other], what)
}

/// Returns whether the store opened. If it did, everything must be there.
fn judge(original: &Original, left: Left, dir: &Path, files: &[PathBuf], what: &str) -> bool {
    let disk = FaultyDisk::of(dir);
    let opened = open(dir, &disk);
    let error = match opened {
        Ok(store) => {
            let there = original.check(&store, what);
            // The damage that cannot be detected: see the store's documentation.
            let newest = Segment::path(dir, original.newest);
            let untold = left == Left::Powerless && files.contains(&newest);
            assert!(there == 10 || untold, "{what}: {there} of 10 are there");
            return true;
        }
        Err(error) => error,
    };
    let said = error.to_string();
    let named = files.iter().any(|file| said.contains(file.to_str().unwrap()));
    assert!(named, "{what}: {said}");
    let helps = ["tenure restore --file", "use a newer program"];
    assert!(helps.iter().any(|help| said.contains(help)), "{what}: {said}");
    false
}

#[test]
fn damage_of_any_kind_is_told_or_took_nothing_away() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261);
    let times = std::env::var("ROT").ok().and_then(|s| s.parse().ok()).unwrap_or(400);
    println!("SEED={seed} ROT={times}");
    let mut rng = StdRng::seed_from_u64(seed);
    for left in Left::ALL {
        let original = original(WRITES, left);
        let mut opened = 0;
        for n in 0..times {
            let dir = copy(original.dir.path());
            let kind = KINDS[n % KINDS.len()];
            let (files, what) = damage(kind, dir.path(), &mut rng);
            let what = format!("SEED={seed}, {n}, {left:?}, {what}");
            opened += usize::from(judge(&original, left, dir.path(), &files, &what));
        }
        println!("{left:?}: {opened} of {times} opened, the others were refused");
        assert!(opened > 0 && opened < times);
    }
}

/// Flips one bit of every byte.
#[test]
fn a_flipped_bit_anywhere_is_told_or_took_nothing_away() {
    let all = std::env::var("ROT").is_ok_and(|rot| rot == "all");
    let mut rng = StdRng::seed_from_u64(7);
    for left in Left::ALL {
        let original = original(WRITES, left);
        let dir = copy(original.dir.path());
        let (mut opened, mut tried) = (0, 0);
        for path in files(original.dir.path()) {
            let name = path.file_name().unwrap();
            let sound = fs::read(&path).unwrap();
            let mut at = 0;
            while at < sound.len() {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << rng.random_range(0..8);
                let target = dir.path().join(name);
                fs::write(&target, bytes).unwrap();
                let what = format!("{left:?}, a flipped bit: {} at {at}", path.display());
                let fits = judge(&original, left, dir.path(), std::slice::from_ref(&target), &what);
                (opened, tried) = (opened + usize::from(fits), tried + 1);
                // Opening changes the files: the rest of a torn write is removed, and the store is closed
                // cleanly.
                if fits {
                    for path in files(original.dir.path()) {
                        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
                    }
                } else {
                    fs::write(&target, &sound).unwrap();
                }
                at += if all { 1 } else { rng.random_range(1..400) };
            }
        }
        println!("{left:?}: {opened} of {tried} opened, the others were refused");
        assert!(opened > 0 && opened < tried);
    }
}
