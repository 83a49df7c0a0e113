//! A coordinator inside another program: the example that the documentation shows, and what it relies on.

#![allow(
    clippy::disallowed_methods,
    reason = "the checker stands outside and reads the clock that its clients would read"
)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use tenure::{
    lease::{Heartbeat, Key, Owner, Refusal, Release},
    manager::{AcquireError, AcquireOne, Tenure},
    settings::Settings,
};

/// One line that the example prints of an ownership change.
#[derive(Debug)]
struct Told {
    key: String,
    kind: String,
    token: u64,
    owner: String,
    before: String,
}

fn example(data_dir: &Path) -> Vec<Told> {
    let program = Path::new(env!("CARGO_BIN_EXE_tenure")).with_file_name("examples/embedding");
    assert!(
        program.is_file(),
        "{} is missing; `cargo build --examples --features testing`",
        program.display()
    );
    let output = Command::new(program).arg("--data-dir").arg(data_dir).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let told = |line: &str| {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_else(|| panic!("{line}")).to_owned();
        let (key, kind, token, owner, before) = (next(), next(), next(), next(), next());
        let value = |text: &str| text.split_once('=').expect("a value").1.replace('"', "");
        let token = value(&token).parse().expect("a token");
        Told { key, kind, token, owner: value(&owner), before: value(&before) }
    };
    said.lines().filter(|line| line.contains(" token=")).map(told).collect()
}

#[test]
fn the_example_gives_each_job_to_one_worker_and_the_silent_ones_jobs_to_the_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut highest: BTreeMap<String, u64> = BTreeMap::new();
    for run in 0..2 {
        let told = example(dir.path());
        let mut holder: BTreeMap<&str, &str> = BTreeMap::new();
        let mut last: BTreeMap<String, &str> = BTreeMap::new();
        for one in &told {
            if one.kind == "granted" {
                assert!(one.token > highest.get(&one.key).copied().unwrap_or(0), "{run}: {one:?}");
                highest.insert(one.key.clone(), one.token);
                assert_eq!(holder.insert(&one.key, &one.owner), None, "{run}: {one:?}");
            } else {
                let ends = if one.before == "w3" { "expired" } else { "released" };
                assert_eq!(one.kind, ends, "{one:?}");
                last.extend(holder.remove(one.key.as_str()).map(|owner| (one.key.clone(), owner)));
            }
        }
        let silent: Vec<_> =
            told.iter().filter(|one| one.kind == "expired" && one.before == "w3").collect();
        assert!(!silent.is_empty(), "run {run}: the third worker had nothing: {told:?}");
        assert!(holder.is_empty() && last.len() == 5, "run {run}: {told:?}");
        assert!(last.values().all(|owner| ["w1", "w2"].contains(owner)), "{last:?}");
    }
}

fn settings(dir: &Path) -> Settings {
    let mut settings = Settings::default();
    settings.store.embedded.data_dir = PathBuf::from(dir);
    settings
}

fn one(key: &str, owner: &str, ttl_ms: u64) -> AcquireOne {
    AcquireOne::new(Key::new(key).expect("a key"), Owner::new(owner).expect("an owner"), ttl_ms)
}

#[tokio::test]
async fn what_was_granted_survives_a_stop_and_a_waiter_is_served_on_any_runtime() {
    let dir = tempfile::tempdir().expect("a directory");
    let tenure = Tenure::start(settings(dir.path())).await.expect("it starts");
    let first = tenure.acquire(&one("job", "w1", 30_000), tenure.now()).await.expect("a grant");
    tenure.stop().await;

    let tenure = Tenure::start(settings(dir.path())).await.expect("it starts again");
    let refused = tenure.acquire(&one("job", "w2", 30_000), tenure.now()).await;
    let Err(AcquireError::Refused(Refusal::Held, Some(view))) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (view.token, view.owner.as_ref().map(Owner::as_str)),
        (first.view.token, Some("w1"))
    );
    let beat = Heartbeat::new(first.lease_id);
    let alive = tenure.heartbeat("job", beat, tenure.now()).await.expect("it is still w1's");
    assert_eq!(alive.token, first.view.token);

    // The one that waits has a runtime of its own.
    let manager = tenure.manager();
    let waits = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let wait = AcquireOne { wait_ms: 20_000, ..one("job", "w2", 30_000) };
        runtime.expect("a runtime").block_on(manager.acquire(&wait, manager.now()))
    });
    let until = Instant::now() + Duration::from_secs(10);
    while tenure.view(&Key::new("job").expect("a key")).await.expect("a view").waiters == 0 {
        assert!(Instant::now() < until, "nobody waits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let release = Release { value: Some("page 7".into()), ..Release::new(first.lease_id) };
    assert!(tenure.release("job", release, tenure.now()).await.expect("released"));
    let second = waits.join().expect("no panic").expect("a grant");
    assert!(second.view.token > first.view.token);
    assert_eq!(second.view.value.as_deref(), Some("page 7"));
}

#[tokio::test]
async fn a_store_that_is_in_use_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let _first = Tenure::start(settings(dir.path())).await.expect("it starts");
    let error = Tenure::start(settings(dir.path())).await.err().expect("one at a time");
    let words = error.to_string();
    assert!(words.contains(&dir.path().display().to_string()), "{words}");
    assert!(words.contains("another process") || words.contains("lock"), "{words}");
}
