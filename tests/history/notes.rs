//! What a worker writes down: what it asks, what it is told, and when it stops believing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use serde_json::Value;

use super::{Event, Log, Op};

/// Shared by the workers of one process. Times are nanoseconds on the run's one clock.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub log: Log,
    calls: Arc<AtomicU64>,
}

impl Notes {
    /// Calls are numbered from `first` on: no two processes of a run use the same numbers.
    pub fn new(log: Log, first: u64) -> Self {
        Self { log, calls: Arc::new(AtomicU64::new(first)) }
    }

    /// A call is about to be sent. `answer_by`: when there has to be an answer, where there is such a bound.
    pub fn asks(&self, t: u64, worker: &str, op: Op, key: &str, answer_by: Option<u64>) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let (worker, key) = (worker.to_owned(), key.to_owned());
        self.log.push(t, Event::Asked { call, worker, op, key, answer_by });
        call
    }

    pub fn refused(&self, t: u64, call: u64, answer: &Value) {
        let why = answer["code"].as_str().unwrap_or("?").to_owned();
        self.log.push(t, Event::Refused { call, why });
    }

    pub fn lost(&self, t: u64, call: u64) {
        self.log.push(t, Event::Lost { call });
    }

    pub fn released(&self, t: u64, call: u64, key: &str, token: u64) {
        let (op, key) = (Op::Release, key.to_owned());
        self.log.push(t, Event::Acknowledged { call, op, key, token });
    }

    /// The worker believes in this tenure no more.
    pub fn shut(&self, t: u64, worker: &str, key: &str, token: u64, why: &str) {
        let (worker, key, why) = (worker.to_owned(), key.to_owned(), why.to_owned());
        self.log.push(t, Event::Shut { worker, key, token, why });
    }
}
