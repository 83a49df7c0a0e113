//! How changes come to the processes: after a while, and not all of them.

use std::{collections::BTreeSet, time::Duration};

use tenure::lease::Key;

use tokio::time::{Instant, sleep};

use super::{
    Server, State,
    shape::{Direction, Kind, span},
    state::ProcessId,
};
use crate::history::Sight;

/// A feed that was cut off is taken up again after at most so long.
const AGAIN: Duration = Duration::from_millis(300);
/// Who notices that a node is dead looks for what it left after at most so long.
const RECOVER: Duration = Duration::from_secs(1);

impl Server {
    /// Something was committed: every process hears of it in a while.
    pub(super) fn committed(&self, state: &mut State, by: ProcessId) {
        if state.kind == Kind::DynamoDb {
            self.flush_soon(state, by);
        } else {
            self.deliver_soon(state);
        }
    }

    /// Has every process look at the log.
    pub(super) fn deliver_soon(&self, state: &mut State) {
        let processes: Vec<ProcessId> = state.processes.keys().copied().collect();
        for process in processes {
            let lag = span(&mut state.chance, state.shape.lag);
            let last = state.data.sequence;
            let Some(view) = state.processes.get_mut(&process) else { continue };
            if view.due || view.consumed >= last {
                continue;
            }
            view.due = true;
            let server = self.clone();
            tokio::spawn(async move { server.deliver(process, lag).await });
        }
    }

    async fn deliver(self, process: ProcessId, lag: Duration) {
        sleep(lag).await;
        let mut changed = self.changed();
        loop {
            let wait = {
                let mut state = self.lock();
                let (kind, stopped) = (state.kind, state.stopped);
                let node = state.processes.get(&process).map(|view| view.node);
                let Some(node) = node else { return };
                let lost = stopped
                    || state.loses(node, Direction::Requests)
                    || state.loses(node, Direction::Replies);
                let State { processes, data, .. } = &mut *state;
                let Some(view) = processes.get_mut(&process) else { return };
                let stalled = view.stalled.filter(|until| Instant::now() < *until);
                match (lost, stalled) {
                    (true, _) => None,
                    (false, Some(until)) => Some(until.duration_since(Instant::now())),
                    // A frozen store is followed again by who thaws it.
                    (false, None) if view.frozen.is_some() || view.suspect.is_some() => {
                        view.due = false;
                        return;
                    }
                    (false, None) => {
                        let gaps = view.deliver(kind, data);
                        view.due = false;
                        drop(state);
                        (0..gaps).for_each(|_| self.saw(Sight::FeedGap));
                        return;
                    }
                }
            };
            match wait {
                Some(wait) => sleep(wait).await,
                None => {
                    if changed.changed().await.is_err() {
                        return;
                    }
                    let pause = self.lock().chance.jitter(AGAIN);
                    sleep(pause).await;
                }
            }
        }
    }

    /// Has a process log what it has to.
    pub(super) fn flush_soon(&self, state: &mut State, by: ProcessId) {
        let pause = state.shape.flush + span(&mut state.chance, state.shape.hop) * 2;
        let Some(view) = state.processes.get_mut(&by) else { return };
        if view.flushing {
            return;
        }
        view.flushing = true;
        let server = self.clone();
        tokio::spawn(async move { server.flush(by, pause).await });
    }

    async fn flush(self, by: ProcessId, pause: Duration) {
        let mut changed = self.changed();
        sleep(pause).await;
        loop {
            {
                let mut state = self.lock();
                let Some(view) = state.processes.get(&by) else { return };
                let node = view.node;
                let frozen = view.frozen.is_some();
                let away = state.stopped || state.loses(node, Direction::Requests);
                if frozen || !away {
                    if let Some(view) = state.processes.get_mut(&by) {
                        view.flushing = false;
                    }
                    if !frozen {
                        self.append(&mut state, by);
                    }
                    return;
                }
            }
            if changed.changed().await.is_err() {
                return;
            }
            let pause = self.lock().chance.jitter(AGAIN);
            sleep(pause).await;
        }
    }

    /// Appends an entry; who appended it has read it.
    fn append(&self, state: &mut State, by: ProcessId) {
        if state.data.flush(by).is_none() {
            return;
        }
        let (kind, history) = (state.kind, state.shape.history);
        let State { processes, data, .. } = state;
        if let Some(view) = processes.get_mut(&by)
            && view.stalled.is_none()
        {
            let _ = view.deliver(kind, data);
        }
        state.data.trim(kind, history);
        self.deliver_soon(state);
    }

    /// What dead nodes committed and did not log is logged by who finds them dead.
    pub(super) fn recover(&self, state: &mut State, by: ProcessId) {
        let lives = |state: &State, process: ProcessId| {
            let nodes = state.data.nodes.values().filter(|node| node.process == process);
            let states: Vec<bool> = nodes.map(|node| node.record.state.is_terminal()).collect();
            states.is_empty() || states.iter().any(|terminal| !terminal)
        };
        let waits = state.data.unlogged.iter().any(|waiting| {
            !waiting.by.contains(&by) && waiting.by.iter().all(|process| !lives(state, *process))
        });
        if !waits {
            return;
        }
        let pause = state.chance.jitter(RECOVER);
        let server = self.clone();
        tokio::spawn(async move {
            sleep(pause).await;
            let mut state = server.lock();
            if !state.processes.contains_key(&by) {
                return;
            }
            let dead: Vec<bool> = state
                .data
                .unlogged
                .iter()
                .map(|waiting| waiting.by.iter().all(|process| !lives(&state, *process)))
                .collect();
            let unlogged = state.data.unlogged.iter();
            let keys: BTreeSet<Key> = unlogged
                .zip(dead)
                .filter(|(_, dead)| *dead)
                .map(|(waiting, _)| waiting.change.key.clone())
                .collect();
            // An item brings along whatever was not logged of it, in its order.
            keys.iter().for_each(|key| state.data.adopt(key, by));
            server.flush_soon(&mut state, by);
        });
    }
}
