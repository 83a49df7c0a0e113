//! A child process that can be killed, stopped and started again.
//!
//! Guarantees: it ends, by its own pid, when this is dropped; what it said is shown when the test
//! failed.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process};

/// Lines that are kept of what it said.
const LINES: usize = 20_000;
/// Of them, what a failed test shows of each process.
const SHOWN: usize = 30;

#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    pub fn start(name: &str, command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("{name}: {why}"));
        let pipe = child.stderr.take().expect("stderr is piped");
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                if heard.len() == LINES {
                    heard.pop_front();
                }
                heard.push_back(line);
            }
        });
        Self { name: name.to_owned(), child, said }
    }

    pub fn said(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().map(|line| format!("{line}\n")).collect()
    }

    #[allow(dead_code, reason = "not every test that has processes asks")]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).unwrap_or_else(|why| panic!("{}: {why}", self.name));
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// SIGKILL, and waits.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let last: Vec<&str> = said.lines().rev().take(SHOWN).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            eprintln!("--- {} said at last:\n{}\n---", self.name, last.join("\n"));
        }
    }
}
