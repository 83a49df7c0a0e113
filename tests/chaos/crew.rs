//! Processes of workers, as the run sees them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::{
    clock::{ms, within},
    net::Net,
};

use crate::support::process::Process;

/// How long workers may take to end: their last call, at nodes that do not answer.
const END_MS: u64 = 60_000;

/// What a process of workers is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub nodes: Vec<String>,
    pub counter: SocketAddr,
    pub history: PathBuf,
    /// Names its workers, and its calls.
    pub number: u64,
    pub workers: usize,
    /// How many of them hold their leases under sessions.
    pub with_sessions: usize,
    pub keys: usize,
    pub wants: usize,
    /// How often it tries, in one round, to take what it lacks.
    pub tries: usize,
    /// In one of so many rounds it gives a lease back.
    pub gives_back: u64,
    pub ttl_ms: u64,
    pub seed: u64,
    /// How long a worker looks away between its check and its write, at most.
    pub pause_ms: u64,
}

pub struct Crew {
    pub place: String,
    orders: Orders,
    histories: PathBuf,
    /// How often it was started.
    lives: u64,
    pub process: Option<Process>,
}

impl Crew {
    pub fn new(n: usize, orders: Orders, histories: &Path) -> Self {
        let orders = Orders { number: n as u64, ..orders };
        Self {
            place: format!("crew{n}"),
            orders,
            histories: histories.to_owned(),
            lives: 0,
            process: None,
        }
    }

    /// Starts workers who know nothing of those before them.
    pub fn start(&mut self, net: &Net) {
        assert!(self.process.is_none(), "{} runs", self.place);
        self.lives += 1;
        let number = self.orders.number % 100 + 100 * self.lives;
        let history = self.histories.join(format!("crew-{number}.jsonl"));
        self.orders = Orders { number, history, ..self.orders.clone() };
        let mut command = net.command(&self.place, std::env::current_exe().expect("a program"));
        command.arg("worker").arg(serde_json::to_string(&self.orders).expect("JSON"));
        self.process = Some(Process::start(&self.place, &mut command));
    }

    pub fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect("it runs").signal(signal);
    }

    /// Why its workers gave up; `None` while they work.
    pub fn gave_up(&mut self) -> Option<String> {
        let process = self.process.as_mut()?;
        let status = process.ended()?;
        Some(format!("{} ended with {status}; it said:\n{}", self.place, process.said()))
    }

    /// SIGTERM, and waits for its end: its workers let everything run out.
    pub async fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.signal(Signal::TERM);
        let mut status = None;
        let ended = within(ms(END_MS), async || {
            status = process.ended();
            status.is_some()
        })
        .await;
        let well = ended && status.is_some_and(|status| status.success());
        assert!(well, "{} ended with {status:?}; it said:\n{}", self.place, process.said());
    }
}
