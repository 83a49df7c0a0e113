//! A child process that can be killed, stopped and started again.
//!
//! Guarantees: it ends, by its own pid, when this is dropped; what it said is shown when the test
//! failed.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::processes::{self, Known};

/// The lines of stderr that are kept.
const LINES: usize = 200_000;
/// Of them, what a failed test shows of each process.
const SHOWN: usize = 60;

/// How long what a process started may live on, on a busy machine.
const COMPANY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    said: Arc<Said>,
    /// What it had started when it was last looked at; none of it is to be left at its end.
    company: Option<Mutex<Vec<Known>>>,
}

/// What a process said on stderr, line by line.
#[derive(Debug, Default)]
struct Said {
    lines: Mutex<(VecDeque<String>, bool)>,
    more: Condvar,
}

impl Said {
    /// The lines, and whether there will be no more.
    fn lock(&self) -> MutexGuard<'_, (VecDeque<String>, bool)> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    pub fn start(name: &str, command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|why| panic!("{name}: {why}"));
        let pipe = child.stderr.take().expect("stderr is piped");
        let said = Arc::new(Said::default());
        let heard = said.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut heard_lines = heard.lock();
                if heard_lines.0.len() == LINES {
                    heard_lines.0.pop_front();
                }
                heard_lines.0.push_back(line);
                heard.more.notify_all();
            }
            heard.lock().1 = true;
            heard.more.notify_all();
        });
        Self { name: name.to_owned(), child, said, company: None }
    }

    /// One with which all ends that it started: when this is dropped, something else fails the test.
    pub fn leaves_nothing(mut self) -> Self {
        self.company = Some(Mutex::default());
        self
    }

    fn look(&self) {
        if let Some(company) = &self.company {
            let mut company = company.lock().unwrap_or_else(PoisonError::into_inner);
            company.extend(processes::descendants(self.child.id()));
        }
    }

    /// What it started and left, after a while in which that may end; it is killed.
    fn left_behind(&mut self) -> Vec<String> {
        let company = self.company.take().unwrap_or_default();
        let mut left = company.into_inner().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + COMPANY;
        loop {
            left = processes::left(&left);
            if left.is_empty() || Instant::now() > end {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let name = |(pid, _): &Known| {
            let name = processes::command(*pid);
            processes::kill(*pid);
            name
        };
        left.iter().map(name).collect()
    }

    pub fn said(&self) -> String {
        self.said.lock().0.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The rest of the first line that begins so, as soon as there is one. `None` when it ends, or is silent for
    /// longer.
    pub fn line(&self, beginning: &str, patience: Duration) -> Option<String> {
        self.rest_of(patience, |line| line.strip_prefix(beginning))
    }

    /// The same, of a line that begins with the time.
    pub fn timed_line(&self, beginning: &str, patience: Duration) -> Option<String> {
        self.rest_of(patience, |line| line.split_once(' ')?.1.strip_prefix(beginning))
    }

    fn rest_of(&self, patience: Duration, rest: impl Fn(&str) -> Option<&str>) -> Option<String> {
        let find =
            |lines: &VecDeque<String>| lines.iter().find_map(|line| rest(line)).map(str::to_owned);
        let waits = |(lines, over): &mut (VecDeque<String>, bool)| !*over && find(lines).is_none();
        let waited = self.said.more.wait_timeout_while(self.said.lock(), patience, waits);
        find(&waited.unwrap_or_else(PoisonError::into_inner).0.0)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        self.look();
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).unwrap_or_else(|why| panic!("{}: {why}", self.name));
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// SIGKILL, and waits. One that ended before has the status of its own end.
    pub fn end(mut self) -> Ended {
        self.look();
        let _ = self.child.kill();
        self.wait()
    }

    /// [`Self::end`] of one that must still run.
    pub fn kill(mut self) {
        assert!(self.ended().is_none(), "{} has ended by itself", self.name);
        self.end();
    }

    /// Waits for its end, and for the last of what it said.
    pub fn wait(mut self) -> Ended {
        let status = self.child.wait().expect("it ends");
        // A child of its own may keep the pipe open.
        let lines = self.said.lock();
        let over = |(_, over): &mut (VecDeque<String>, bool)| !*over;
        drop(self.said.more.wait_timeout_while(lines, Duration::from_secs(1), over));
        Ended { status, said: self.said() }
    }
}

/// What is left of a process.
#[derive(Clone, Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub said: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.look();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let last: Vec<&str> = said.lines().rev().take(SHOWN).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            eprintln!("--- {} said at last:\n{}\n---", self.name, last.join("\n"));
        }
        let left = self.left_behind();
        assert!(left.is_empty() || std::thread::panicking(), "{} left behind {left:?}", self.name);
    }
}
