//! A coordinator, agents with scripts that log, and what the log shows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    history::{Event, Line, check},
    support::{clock::wait_for, node::Node, process::Process},
};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure");

pub const HEALTHCHECK: &str = r#"[ ! -e "$DIR/sick-$ID" ]"#;
/// Stamps, in hundredths of a second of the boot clock, before it becomes active.
pub const ACTIVATE: &str =
    r#"read up _ </proc/uptime; echo "$up on $ID $TENURE_TOKEN" >>"$DIR/log"; : >"$DIR/on-$ID""#;
/// In nanoseconds.
const HUNDREDTH: u64 = 10_000_000;
/// Stamps after it became inactive.
pub const DEACTIVATE: &str =
    r#"rm -f "$DIR/on-$ID"; read up _ </proc/uptime; echo "$up off $ID -" >>"$DIR/log""#;

pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it is there");
}

/// The guardian of an agent, if it has one.
pub fn guardian_of(agent: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).ok()?;
    children.split_whitespace().find_map(|child| {
        let line = fs::read(format!("/proc/{child}/cmdline")).ok()?;
        let is_it = String::from_utf8_lossy(&line).contains("\0guardian\0");
        is_it.then(|| child.parse().ok())?
    })
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamp {
    /// Hundredths of a second.
    pub at: u64,
    pub on: bool,
    pub who: String,
    pub token: Option<u64>,
}

pub struct Stage {
    dir: TempDir,
    server: Node,
}

impl Stage {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let data = format!("store.embedded.data_dir={}", dir.path().join("data").display());
        let mut stage = Self { dir, server: Node::new("the coordinator", &[data], &[]) };
        stage.start_server();
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }

    pub fn start_server(&mut self) {
        self.server.listens().expect("it listens");
    }

    pub fn kill_server(&mut self) {
        self.server.kill();
    }

    /// `tenure guard` with all that is needed; options in `more` come later and count.
    pub fn command(&self, id: &str, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["--server", self.url(), "guard", "--key", "service", "--owner", id]);
        command.args(more);
        for (option, line) in
            [("--healthcheck", HEALTHCHECK), ("--activate", ACTIVATE), ("--deactivate", DEACTIVATE)]
        {
            if !more.contains(&option) {
                command.args([option, line]);
            }
        }
        command.env("DIR", self.dir()).env("ID", id).env_remove("NOTIFY_SOCKET");
        command
    }

    pub fn agent(&self, id: &str, more: &[&str]) -> Process {
        Process::start(&format!("agent {id}"), &mut self.command(id, more))
    }

    pub fn touch(&self, name: &str) {
        fs::write(self.path(name), "").expect("a file");
    }

    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
    }

    pub fn log(&self) -> Vec<Stamp> {
        let text = fs::read_to_string(self.path("log")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let stamp = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let [at, what, who, token] = words[..] else { panic!("{line:?}") };
            let at = at.replace('.', "").parse().expect("hundredths");
            Stamp { at, on: what == "on", who: who.to_owned(), token: token.parse().ok() }
        };
        whole.lines().map(stamp).collect()
    }

    /// Who is active, by the last word of each.
    pub fn active(&self) -> BTreeSet<String> {
        let mut active = BTreeSet::new();
        for stamp in self.log() {
            if stamp.on {
                active.insert(stamp.who);
            } else {
                active.remove(&stamp.who);
            }
        }
        active
    }

    /// Waits until one of these is active.
    #[track_caller]
    pub fn wait_active(&self, among: &[&str]) -> String {
        let mut found = None;
        wait_for(&format!("one of {among:?} to be active"), || {
            found = self.active().into_iter().find(|who| among.contains(&&**who));
            found.is_some()
        });
        found.expect("found")
    }

    /// No two were ever active at once, and tokens rise.
    #[track_caller]
    pub fn judge(&self) {
        let mut log = self.log();
        // What has the same hundredth may have happened in either order.
        log.sort_by_key(|stamp| (stamp.at, stamp.on));
        let (mut lines, mut active) = (Vec::new(), BTreeMap::<&str, u64>::new());
        for stamp in &log {
            let mut runs = |who: &str, token, began| {
                let (program, key) = (who.to_owned(), "service".to_owned());
                let event = Event::Ran { program, key, token, began };
                lines.push(Line { t: stamp.at * HUNDREDTH, event });
            };
            if stamp.on {
                let token = stamp.token.expect("an activation has a token");
                runs(&stamp.who, token, true);
                // Whoever did not stamp its end runs on.
                active.iter().for_each(|(who, token)| runs(who, *token, false));
                active.insert(&*stamp.who, token);
            } else if let Some(token) = active.remove(&*stamp.who) {
                runs(&stamp.who, token, false);
            }
        }
        let report = check(&lines);
        assert!(report.violations.is_empty(), "{report}");
    }
}

/// Hundredths of a second of the boot clock.
pub fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("a Linux machine");
    text.split(' ').next().unwrap().replace('.', "").parse().unwrap()
}
