//! Between a process and the store: requests and replies take their time, are lost, and come late.

use std::time::Duration;

use tenure::lease::StoreError;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until, timeout_at},
};

use super::{
    Server, State,
    shape::{Direction, Kind, TAIL, below, happens, span},
    state::ProcessId,
};

/// A request that was lost is sent again by lower layers when the network is back, in this share of cases.
const PATIENT: f64 = 0.25;
/// A server that is away is noticed before a request is sent, in this share of cases.
const NOTICED: f64 = 0.5;
/// A late write comes up to so much later than its time-out.
const LATE: Duration = Duration::from_secs(4);

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Read,
    Write,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// It was not done, and never will be.
    Refused(String),
    /// It was done, or will be, or not.
    Unknown(String),
}

impl Failure {
    pub fn into_error(self) -> StoreError {
        match self {
            Self::Refused(why) | Self::Unknown(why) => StoreError::Unavailable(why),
        }
    }
}

/// What will become of a request, as far as chance has a say.
#[derive(Clone, Copy, Debug)]
struct Fate {
    there: Duration,
    back: Duration,
    throttled: bool,
    reply_lost: bool,
    /// It waits for the network, or for the store, to be back.
    patient: bool,
    /// It arrives although its sender died meanwhile.
    survives: bool,
}

impl State {
    fn hop(&mut self) -> Duration {
        let range = self.slow.unwrap_or(self.shape.hop);
        let hop = span(&mut self.chance, range);
        if happens(&mut self.chance, self.shape.tail) { (hop * 100).min(TAIL) } else { hop }
    }

    fn fate(&mut self, node: usize, class: Class) -> Result<Fate, Failure> {
        let unreachable = self.stopped || self.cut(node) == Some(Direction::Both);
        if unreachable && happens(&mut self.chance, NOTICED) {
            return Err(Failure::Refused("not connected".to_owned()));
        }
        let (there, back) = (self.hop(), self.hop());
        let late = class == Class::Write && happens(&mut self.chance, self.late);
        let (timeout, lost) = (self.shape.timeout, self.shape.lost);
        let there = if late { timeout + self.chance.jitter(LATE) } else { there };
        Ok(Fate {
            there,
            back,
            throttled: self.kind == Kind::DynamoDb && happens(&mut self.chance, self.throttle),
            reply_lost: happens(&mut self.chance, lost),
            patient: happens(&mut self.chance, PATIENT),
            survives: happens(&mut self.chance, 0.5),
        })
    }

    pub fn loses(&self, node: usize, what: Direction) -> bool {
        self.cut(node).is_some_and(|cut| cut == what || cut == Direction::Both)
    }
}

impl Server {
    /// Has the store do something for a process, once. Resolves within the time-out.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        process: ProcessId,
        class: Class,
        work: impl FnOnce(&Server, &mut State) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        let (node, fate, limit) = {
            let mut state = self.lock();
            let Some(node) = state.processes.get(&process).map(|view| view.node) else {
                return Err(Failure::Refused("the store is closed".to_owned()));
            };
            let fate = state.fate(node, class);
            if fate.is_err() {
                state.fails(process);
            }
            (node, fate?, state.shape.timeout)
        };
        let (reply, answer) = oneshot::channel();
        let server = self.clone();
        tokio::spawn(async move {
            sleep(fate.there).await;
            if !server.arrives(process, node, fate).await {
                return;
            }
            let done = if fate.throttled {
                Err(Failure::Refused("throttled".to_owned()))
            } else {
                Ok(work(&server, &mut server.lock()))
            };
            sleep(fate.back).await;
            let lost = fate.reply_lost || {
                let state = server.lock();
                state.stopped || state.loses(node, Direction::Replies)
            };
            if !lost {
                // Nobody waits any more: it was done all the same.
                let _ = reply.send(done);
            }
        });
        let deadline = began + limit;
        let answer = timeout_at(deadline, answer).await;
        match answer {
            Ok(Ok(done)) => {
                let throttled = done.is_err();
                self.lock().answered(process, throttled, class);
                done
            }
            lost => {
                if lost.is_ok() {
                    sleep_until(deadline).await;
                }
                self.lock().fails(process);
                Err(Failure::Unknown("no answer within the time-out".to_owned()))
            }
        }
    }

    /// Whether a request comes to the store at all; if so, it is there now.
    async fn arrives(&self, process: ProcessId, node: usize, fate: Fate) -> bool {
        let mut changed = self.changed();
        loop {
            {
                let state = self.lock();
                if !state.processes.contains_key(&process) && !fate.survives {
                    return false;
                }
                if !state.stopped && !state.loses(node, Direction::Requests) {
                    return true;
                }
            }
            if !fate.patient || changed.changed().await.is_err() {
                return false;
            }
        }
    }
}

impl State {
    /// A process heard of the store.
    fn answered(&mut self, process: ProcessId, throttled: bool, class: Class) {
        let now = Instant::now();
        let jitter = self.chance.next_u64();
        let Some(view) = self.processes.get_mut(&process) else { return };
        view.away = None;
        if throttled {
            view.throttle(now, |n| jitter % n);
        } else if class == Class::Write {
            view.throttled = None;
        }
    }

    /// A process waited in vain.
    fn fails(&mut self, process: ProcessId) {
        let Some(view) = self.processes.get_mut(&process) else { return };
        view.away.get_or_insert_with(Instant::now);
    }

    /// A number below `n`.
    pub fn draw(&mut self, n: u64) -> u64 {
        below(&mut self.chance, n)
    }
}
