//! Agents that are killed, paused, drained and started again, and the children that they run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure::clock::Chance;

use crate::support::clock::{ms, now, sleep_ms, within};

/// How long an agent that drains may take.
const DRAIN_MS: u64 = 40_000;
/// How often a program gives a sign of life; less often where there are many.
const SIGN_MS: u64 = 400;
const MS_FOR_A_KEY: u64 = 4;
/// How many are killed at the very end of the faults.
const LAST_KILLED: usize = 3;

/// What agents and their children share.
pub struct Fleet {
    dir: TempDir,
    server: String,
    pool: String,
    /// An agent takes so many keys at most.
    capacity: Option<usize>,
    guarded: bool,
    pub ttl_ms: u64,
    /// How often each program gives a sign of life.
    pub beat_ms: u64,
    agents: Vec<Agent>,
}

/// One place for an agent, and when the next thing happens to it.
struct Agent {
    child: Option<Child>,
    paused: bool,
    /// It was told to drain, or lost its guardian.
    leaving: bool,
    next_at: tenure::lease::Moment,
}

/// What was done to agents.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub killed: u32,
    pub paused: u32,
    pub drained: u32,
    pub unguarded: u32,
}

fn pid_of(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id")
}

impl Fleet {
    pub fn new(server: String, agents: usize, keys: usize, ttl_ms: u64, guarded: bool) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["log", "lock"] {
            fs::create_dir(dir.path().join(name)).expect("a directory");
        }
        let fifo = Command::new("mkfifo").arg(dir.path().join("fifo")).status();
        assert!(fifo.is_ok_and(|status| status.success()));
        let list: String = (0..keys).map(|n| format!("chaos/{n}\n")).collect();
        fs::write(dir.path().join("keys"), list).expect("a file");
        let agent = || Agent { child: None, paused: false, leaving: false, next_at: now() };
        let agents: Vec<Agent> = std::iter::repeat_with(agent).take(agents).collect();
        let (pool, capacity) = ("default".to_owned(), Some(keys.div_ceil(agents.len()) + 2));
        let beat_ms = SIGN_MS.max(MS_FOR_A_KEY * keys as u64);
        Self { dir, server, pool, capacity, guarded, ttl_ms, beat_ms, agents }
    }

    /// Its agents are members of this pool, which says how many keys each has. Their programs end when they are told to.
    pub fn of_pool(mut self, pool: &str) -> Self {
        (self.pool, self.capacity) = (pool.to_owned(), None);
        self
    }

    pub fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn start(&mut self, number: usize) {
        self.start_version(number, "");
    }

    /// Starts an agent that says that it is of this version.
    pub fn start_version(&mut self, number: usize, version: &str) {
        let dir = self.dir.path();
        let said = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join(format!("agent-{number}")));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["--server", &self.server, "work", "--pool", &self.pool, "--keys-from"]);
        command.arg(dir.join("keys"));
        command.args([
            "--owner",
            &format!("agent-{number}"),
            "--ttl",
            &format!("{}ms", self.ttl_ms),
        ]);
        command.args(["--grace", &format!("{}ms", self.ttl_ms / 6)]);
        if let Some(capacity) = self.capacity {
            command.args(["--capacity", &capacity.to_string()]);
        }
        if !version.is_empty() {
            command.args(["--runs-version", version]);
        }
        command.args(["--", "bash"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/work_chaos/child.sh"));
        if self.capacity.is_none() {
            command.env("CHAOS_POLITE", "1");
        }
        command.env("CHAOS_BEAT", format!("{:.3}", self.beat_ms as f64 / 1e3));
        command.env("CHAOS", dir).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(said.expect("a file"));
        if !self.guarded {
            command.env("TENURE_TEST_NO_GUARDIAN", "1");
        }
        self.agents[number].child = Some(command.spawn().expect("the program starts"));
        (self.agents[number].paused, self.agents[number].leaving) = (false, false);
    }

    pub fn start_all(&mut self) {
        for number in 0..self.agents.len() {
            if self.agents[number].child.is_none() {
                self.start(number);
            }
        }
    }

    /// Does things to agents at random for so long.
    pub async fn suffer(&mut self, span_ms: u64, chance: &mut Chance) -> Done {
        let end = now() + ms(span_ms);
        let mut done = Done::default();
        for agent in &mut self.agents {
            agent.next_at = now() + chance.jitter(ms(4 * self.ttl_ms));
        }
        while now() < end {
            for number in 0..self.agents.len() {
                if self.agents[number].next_at <= now() {
                    self.happen(number, chance, &mut done);
                }
            }
            sleep_ms(20).await;
        }
        self.recover().await;
        done
    }

    fn happen(&mut self, number: usize, chance: &mut Chance, done: &mut Done) {
        let ttl = ms(self.ttl_ms);
        let agent = &mut self.agents[number];
        agent.next_at = now() + ttl + chance.jitter(ttl * 4);
        let Some(child) = &mut agent.child else { return self.start(number) };
        if agent.paused {
            let _ = kill_process(pid_of(child), Signal::CONT);
            agent.paused = false;
            return;
        }
        if child.try_wait().expect("it is our child").is_some() {
            return self.start(number);
        }
        match chance.next_u64() % 8 {
            0..3 => {
                done.killed += 1;
                let _ = kill_process(pid_of(child), Signal::KILL);
                let _ = child.wait();
                agent.child = None;
                agent.next_at = now() + chance.jitter(ttl);
            }
            3..6 => {
                done.paused += 1;
                let _ = kill_process(pid_of(child), Signal::STOP);
                agent.paused = true;
                agent.next_at = now() + chance.jitter(ttl * 3);
            }
            6 => {
                done.drained += 1;
                agent.leaving = true;
                let _ = kill_process(pid_of(child), Signal::TERM);
            }
            _ => {
                done.unguarded += 1;
                agent.leaving = true;
                if let Some(guardian) = guardian_of(child.id()) {
                    let _ = kill_process(guardian, Signal::KILL);
                }
            }
        }
    }

    /// The last faults: some are killed. Who was paused goes on, who leaves is waited for, and who is gone
    /// is started again.
    async fn recover(&mut self) {
        for agent in &mut self.agents {
            let Some(child) = &mut agent.child else { continue };
            let _ = kill_process(pid_of(child), Signal::CONT);
            if agent.leaving {
                let ended = async || child.try_wait().expect("it is our child").is_some();
                assert!(within(ms(DRAIN_MS), ended).await, "an agent does not leave");
            }
        }
        for number in 0..self.agents.len() {
            let agent = &mut self.agents[number];
            if let Some(child) = agent.child.as_mut().filter(|_| number < LAST_KILLED) {
                let _ = child.kill();
                let _ = child.wait();
            }
            let ended = |child: &mut Child| child.try_wait().expect("it is our child").is_some();
            if agent.child.as_mut().is_none_or(ended) {
                self.start(number);
            }
        }
    }

    /// These agents are killed, all at once.
    pub fn kill(&mut self, numbers: std::ops::Range<usize>) {
        for number in numbers.clone() {
            let child = self.agents[number].child.as_ref().expect("it runs");
            let _ = kill_process(pid_of(child), Signal::KILL);
        }
        for mut child in numbers.filter_map(|number| self.agents[number].child.take()) {
            let _ = child.wait();
        }
    }

    /// An agent is told to stop, and does.
    pub async fn stop(&mut self, number: usize) {
        if let Some(child) = &self.agents[number].child {
            let _ = kill_process(pid_of(child), Signal::TERM);
        }
        self.leaves(number).await;
    }

    /// An agent ends by itself, with everything handed over or kept.
    pub async fn leaves(&mut self, number: usize) {
        let mut child = self.agents[number].child.take().expect("it runs");
        let mut status = None;
        let ended = within(ms(DRAIN_MS), async || {
            status = child.try_wait().expect("it is our child");
            status.is_some()
        });
        let ended = ended.await;
        if !ended {
            self.agents[number].child = Some(child);
        }
        assert!(ended && status.is_some_and(|it| it.success()), "agent {number}: {status:?}");
    }

    /// Every agent is asked to drain; whether all ended with 0.
    pub async fn drain(&mut self) -> Vec<String> {
        let mut faults = Vec::new();
        for agent in &self.agents {
            if let Some(child) = &agent.child {
                let _ = kill_process(pid_of(child), Signal::TERM);
            }
        }
        for (number, agent) in self.agents.iter_mut().enumerate() {
            let Some(mut child) = agent.child.take() else { continue };
            let mut status = None;
            within(ms(DRAIN_MS), async || {
                status = child.try_wait().expect("it is our child");
                status.is_some()
            })
            .await;
            if !status.is_some_and(|status| status.success()) {
                let said = fs::read_to_string(self.dir.path().join(format!("agent-{number}")));
                let said = said.unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(10).collect();
                faults.push(format!(
                    "agent {number} drained with {status:?}; it said at last {last:#?}"
                ));
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        faults
    }

    /// What agents said last of a key, and what its programs did.
    pub fn story(&self, key: usize) -> String {
        let mut told = String::new();
        for number in 0..self.agents.len() {
            let said = fs::read_to_string(self.dir.path().join(format!("agent-{number}")));
            let said = said.unwrap_or_default();
            let named = format!("chaos/{key}: ");
            let lines: Vec<&str> = said.lines().filter(|line| line.contains(&named)).collect();
            for line in lines.iter().rev().take(4).rev() {
                told += &format!("  agent {number}: {line}\n");
            }
        }
        let log = fs::read_to_string(self.log().join(format!("chaos-{key}"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        for line in lines.iter().rev().take(4).rev() {
            told += &format!("  program: {line}\n");
        }
        told
    }

    /// Every process that an agent of this fleet started, directly or not.
    pub fn living(&self) -> Vec<u32> {
        let worn = format!("CHAOS={}", self.dir.path().display());
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let wears = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|&byte| byte == 0).any(|variable| variable == worn.as_bytes())
        };
        numbers.filter(wears).collect()
    }
}

/// The guardian of an agent.
fn guardian_of(agent: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok().and_then(Pid::from_raw)
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            if let Some(child) = &mut agent.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // What a broken variant left behind, too.
        for pid in self.living() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
