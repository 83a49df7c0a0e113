//! A queue of scripts: a script starts only when nothing of the previous one is left.

use std::{collections::VecDeque, future::pending, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::event::Event;
use crate::worker::{
    guard::{Input, RunId, ScriptOutcome},
    guardian::{Exit, Slot, Task, Why},
};

/// The number of orders that may wait. The state machine has at most one run and its kill in progress.
const ORDERS: usize = 64;

enum Order {
    Run { run: RunId, task: Task, slot: Arc<Slot> },
    Kill(RunId),
}

/// A queue that runs one script at a time.
pub(super) struct ScriptQueue {
    orders: mpsc::Sender<Order>,
}

impl ScriptQueue {
    pub(super) fn new(events: mpsc::Sender<Event>) -> Self {
        let (orders, queue) = mpsc::channel(ORDERS);
        tokio::spawn(work(queue, events));
        Self { orders }
    }

    /// Queues a run. Returns whether there was room.
    pub(super) fn run(&self, run: RunId, task: Task, slot: Arc<Slot>) -> bool {
        self.orders.try_send(Order::Run { run, task, slot }).is_ok()
    }

    pub(super) fn kill(&self, run: RunId) {
        // If there is no room, the time-out kills the script.
        let _ = self.orders.try_send(Order::Kill(run));
    }
}

async fn work(mut orders: mpsc::Receiver<Order>, events: mpsc::Sender<Event>) {
    let mut waiting = VecDeque::new();
    loop {
        let order = match waiting.pop_front() {
            Some(order) => Some(order),
            None => orders.recv().await,
        };
        match order {
            None => return,
            // The script has already ended.
            Some(Order::Kill(_)) => {}
            Some(Order::Run { run, task, slot }) => {
                let outcome = one(run, task, &slot, &mut orders, &mut waiting).await;
                if events.send(Event::Input(Input::Ended(run, outcome))).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn one(
    run: RunId,
    task: Task,
    slot: &Slot,
    orders: &mut mpsc::Receiver<Order>,
    waiting: &mut VecDeque<Order>,
) -> ScriptOutcome {
    let Ok(mut running) = slot.run(task).await else { return ScriptOutcome::Failed };
    loop {
        tokio::select! {
            exit = running.exited() => return outcome(exit),
            order = orders.recv() => match order {
                Some(Order::Kill(killed)) if killed == run => slot.stop(Duration::ZERO),
                Some(other) => waiting.push_back(other),
                // The agent ends, and its guardian does the rest.
                None => pending().await,
            },
        }
    }
}

fn outcome(exit: Exit) -> ScriptOutcome {
    match exit.why {
        None if exit.success() => ScriptOutcome::Ok,
        Some(Why::Limit) => ScriptOutcome::TimedOut,
        _ => ScriptOutcome::Failed,
    }
}
