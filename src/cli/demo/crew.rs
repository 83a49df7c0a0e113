//! The workers of the demo: started, killed, paused and resumed.

use tokio::sync::watch;

use super::{
    board::{Life, SharedBoard, locked},
    scenario::{MOST_WORKERS, worker_name},
    task::Task,
    worker::Worker,
};
use crate::client::Client;

/// A worker that runs or is paused.
struct Hand {
    _task: Task,
    paused: watch::Sender<bool>,
}

/// All workers. They end with this value.
pub struct Crew {
    client: Client,
    board: SharedBoard,
    /// By number. `None`: it was killed.
    hands: Vec<Option<Hand>>,
}

impl Crew {
    pub fn new(client: Client, board: SharedBoard) -> Self {
        Self { client, board, hands: Vec::new() }
    }

    /// Starts a worker under the lowest number that none has.
    ///
    /// # Errors
    /// If there are as many as there may be.
    pub fn add(&mut self) -> Result<usize, String> {
        let free = self.hands.iter().position(Option::is_none);
        let index = free.unwrap_or(self.hands.len());
        if index == MOST_WORKERS {
            return Err(format!("there are {MOST_WORKERS} workers, and no more numbers"));
        }
        locked(&self.board).begins(index);
        let (paused, pauses) = watch::channel(false);
        let worker = Worker::new(self.client.clone(), index, self.board.clone());
        let hand = Hand { _task: Task::run(worker.work(pauses)), paused };
        match self.hands.get_mut(index) {
            Some(place) => *place = Some(hand),
            None => self.hands.push(Some(hand)),
        }
        Ok(index)
    }

    /// Kills a worker, as `kill -9` does: it sends nothing more.
    ///
    /// # Errors
    /// If there is no such worker.
    pub fn kill(&mut self, index: usize) -> Result<(), String> {
        let hand = self.hands.get_mut(index).and_then(Option::take);
        hand.ok_or_else(|| none_such(index))?;
        locked(&self.board).killed(index);
        Ok(())
    }

    /// Pauses a worker, as `kill -STOP`, a long collection of garbage or a suspended machine does.
    ///
    /// # Errors
    /// If there is no such worker, or it is paused.
    pub fn pause(&mut self, index: usize) -> Result<(), String> {
        let mut board = locked(&self.board);
        let hand = self.hands.get(index).and_then(Option::as_ref);
        let hand = hand.ok_or_else(|| none_such(index))?;
        if board.lives[index] == Life::Paused {
            return Err(format!("{} is paused already", worker_name(index)));
        }
        board.paused(index);
        hand.paused.send_replace(true);
        Ok(())
    }

    /// Lets a paused worker go on where it was.
    ///
    /// # Errors
    /// If there is no such worker, or it is not paused.
    pub fn resume(&mut self, index: usize) -> Result<(), String> {
        let mut board = locked(&self.board);
        let hand = self.hands.get(index).and_then(Option::as_ref);
        let hand = hand.ok_or_else(|| none_such(index))?;
        if board.lives[index] != Life::Paused {
            return Err(format!("{} is not paused", worker_name(index)));
        }
        board.resumed(index);
        hand.paused.send_replace(false);
        Ok(())
    }
}

fn none_such(index: usize) -> String {
    format!("there is no {}", worker_name(index))
}
