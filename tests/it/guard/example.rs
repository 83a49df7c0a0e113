//! `examples/singleton`, as its README says, and the units of `packaging/systemd`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use rustix::process::Signal;

use crate::{
    guard::stage::{PROGRAM, Stage},
    support::{clock::wait_for, process::Process},
};

fn repository(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{file}: {why}"))
}

/// The README's command, for this owner and directory.
fn as_told(stage: &Stage, owner: &str) -> Process {
    let readme = repository("examples/singleton/README.md");
    let script = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let script = script.expect("a command");
    let dir = stage.path("singleton");
    let script = script.replace("/tmp/singleton", dir.to_str().expect("UTF-8"));
    let script = script.replace("--owner a", &format!("--owner {owner}"));
    let script = script.replace("-r 1s", "-r 300ms");
    let script = script.replace("tenure guard", &format!("exec {PROGRAM} guard"));
    assert!(script.contains("exec ") && script.contains("-r 300ms") && script.contains("mkdir"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(env!("CARGO_MANIFEST_DIR"));
    command.env("TENURE_SERVER", stage.url());
    Process::start(owner, &mut command)
}

#[test]
fn the_singleton_ticks_once_and_moves() {
    let stage = Stage::new();
    let ticks = || fs::read_to_string(stage.path("singleton/ticks")).unwrap_or_default();
    let last = || ticks().lines().last().unwrap_or_default().to_owned();
    let first = as_told(&stage, "a");
    wait_for("ticks of a", || last() == "a 1");
    let second = as_told(&stage, "b");
    wait_for("b to be a standby", || second.said().contains("standby"));
    first.kill();
    // Its token is the next one where it stood in the queue just then, and else the one after.
    wait_for("ticks of b", || last().starts_with("b "));
    second.signal(Signal::TERM);
    assert_eq!(second.wait().status.code(), Some(0));
    let ticks = ticks();
    let mut owners: Vec<_> = ticks.lines().collect();
    owners.dedup();
    assert_eq!(owners.len(), 2, "never in between: {owners:?}");
    assert!(owners[0] == "a 1" && ["b 2", "b 3"].contains(&owners[1]), "{owners:?}");
}

/// The keys of a unit, with their sections.
fn unit(file: &str) -> BTreeMap<String, Vec<String>> {
    let text = repository(file).replace("\\\n", " ");
    let (mut section, mut keys) = (String::new(), BTreeMap::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{file}: {line}"));
        let values: &mut Vec<String> = keys.entry(format!("{section}.{key}")).or_default();
        values.push(value.trim().to_owned());
    }
    keys
}

#[test]
fn the_sample_units_are_such_that_systemd_waits_watches_and_leaves_time() {
    let guard = unit("packaging/systemd/tenure-guard@.service");
    let one = |unit: &BTreeMap<String, Vec<String>>, key: &str| -> String {
        let values = unit.get(key).unwrap_or_else(|| panic!("no {key}"));
        assert_eq!(values.len(), 1, "{key}");
        values[0].clone()
    };
    for (key, value) in [
        ("Service.Type", "notify"),
        ("Service.NotifyAccess", "main"),
        ("Service.Restart", "always"),
        // The guardian must outlive a killed agent: it has the will.
        ("Service.KillMode", "process"),
        ("Install.WantedBy", "multi-user.target"),
    ] {
        assert_eq!(one(&guard, key), value, "{key}");
    }
    for key in ["Service.WatchdogSec", "Service.TimeoutStopSec", "Service.RestartSec", "Unit.After"]
    {
        one(&guard, key);
    }
    let line = one(&guard, "Service.ExecStart");
    assert!(line.starts_with("/usr/bin/tenure guard "), "{line}");
    for option in
        ["--key", "--owner", "-r", "-f", "-c", "--healthcheck", "--activate", "--deactivate"]
    {
        assert!(line.contains(&format!(" {option} ")), "{option}");
    }
    // The program takes the line, once systemd's words are filled in.
    let line = line.replace("%i", "demo").replace("%H", "host").replace("/usr/bin/tenure", PROGRAM);
    let line = format!("{} --deactivate-timeout 1h", line.replace("$TENURE_GUARD_OPTIONS", ""));
    let output = Command::new("sh").args(["-c", &line]).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("--deactivate-timeout 3600s"), "{said}");

    let server = unit("packaging/systemd/tenure.service");
    assert!(one(&server, "Service.ExecStart").starts_with("/usr/bin/tenure serve "));
    assert_eq!(one(&server, "Service.Restart"), "on-failure");
}
