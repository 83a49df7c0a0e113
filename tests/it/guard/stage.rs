//! A coordinator, agents with scripts that log, and what the log shows.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::ports::free_port;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_tenure");
/// For everything that only has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

pub const HEALTHCHECK: &str = r#"[ ! -e "$DIR/sick-$ID" ]"#;
/// Stamps, in hundredths of a second of the boot clock, before it becomes active.
pub const ACTIVATE: &str =
    r#"read up _ </proc/uptime; echo "$up on $ID $TENURE_TOKEN" >>"$DIR/log"; : >"$DIR/on-$ID""#;
/// Stamps after it became inactive.
pub const DEACTIVATE: &str =
    r#"rm -f "$DIR/on-$ID"; read up _ </proc/uptime; echo "$up off $ID -" >>"$DIR/log""#;

/// A process that is killed at the end; what it said is shown when the test fails.
pub struct Process {
    name: String,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Process {
    pub fn start(name: &str, command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let pipe = child.stderr.take().expect("stderr is piped");
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                heard.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { name: name.to_owned(), child, said }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_for(&format!("the end of {}", self.name), || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        // What it said last is on its way.
        std::thread::sleep(Duration::from_millis(50));
        status.expect("it ended")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- {} said:\n{}---", self.name, self.said());
        }
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            send(self.pid(), Signal::CONT);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

pub fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a pid");
    kill_process(pid, signal).expect("it is there");
}

#[track_caller]
pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
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
    port: u16,
    server: Option<Process>,
}

impl Stage {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let mut stage = Self { dir, port, server: None };
        stage.start_server();
        stage
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn start_server(&mut self) {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--listen", &format!("127.0.0.1:{}", self.port), "--data-dir"]);
        command.arg(self.path("data"));
        self.server = Some(Process::start("the coordinator", &mut command));
        wait_for("the coordinator", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    pub fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill();
    }

    /// `tenure guard` with all that is needed; options in `more` come later and count.
    pub fn command(&self, id: &str, more: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["--server", &self.url(), "guard", "--key", "service", "--owner", id]);
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
        let (mut active, mut last): (BTreeSet<&str>, _) = (BTreeSet::new(), 0);
        for stamp in &log {
            if stamp.on {
                assert!(active.is_empty(), "{stamp:?} while {active:?} is active: {log:#?}");
                active.insert(&stamp.who);
                let token = stamp.token.expect("an activation has a token");
                assert!(token > last, "{stamp:?} after token {last}: {log:#?}");
                last = token;
            } else {
                active.remove(&*stamp.who);
            }
        }
    }
}

/// Hundredths of a second of the boot clock.
pub fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").expect("a Linux machine");
    text.split(' ').next().unwrap().replace('.', "").parse().unwrap()
}
