//! One script after another: what is to run waits until what ran before is gone.

use std::{collections::VecDeque, future::pending, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::Event;
use crate::worker::{
    guard::{Input, Outcome, RunId},
    guardian::{Exit, Slot, Task, Why},
};

/// Orders that wait. The machine has at most one run and its kill under way.
const ORDERS: usize = 64;

enum Order {
    Run { run: RunId, task: Task, slot: Arc<Slot> },
    Kill(RunId),
}

/// A script_queue for scripts.
pub(super) struct ScriptQueue {
    orders: mpsc::Sender<Order>,
}

impl ScriptQueue {
    pub(super) fn new(events: mpsc::Sender<Event>) -> Self {
        let (orders, queue) = mpsc::channel(ORDERS);
        tokio::spawn(work(queue, events));
        Self { orders }
    }

    /// Whether it was taken.
    pub(super) fn run(&self, run: RunId, task: Task, slot: Arc<Slot>) -> bool {
        self.orders.try_send(Order::Run { run, task, slot }).is_ok()
    }

    pub(super) fn kill(&self, run: RunId) {
        // Its time-out kills it otherwise.
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
            // It is over already.
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
) -> Outcome {
    let Ok(mut running) = slot.run(task).await else { return Outcome::Failed };
    loop {
        tokio::select! {
            exit = running.exited() => return outcome(exit),
            order = orders.recv() => match order {
                Some(Order::Kill(killed)) if killed == run => slot.stop(Duration::ZERO),
                Some(other) => waiting.push_back(other),
                // The agent ends, and its guardian sees to the rest.
                None => pending().await,
            },
        }
    }
}

fn outcome(exit: Exit) -> Outcome {
    match exit.why {
        None if exit.success() => Outcome::Ok,
        Some(Why::Limit) => Outcome::TimedOut,
        _ => Outcome::Failed,
    }
}
