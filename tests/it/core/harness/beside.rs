//! Heartbeats that are answered beside the lease's actor: by a thread that reads the clock, finds the promise cell, and
//! goes on later.

use std::sync::Arc;

use tenure::lease::{Answer, Heartbeat, LeaseId, Moment, PromiseCell, Request};

use super::{Bench, Who};

/// A heartbeat whose thread is stopped between finding the promise cell and promising.
#[derive(Clone, Debug)]
pub struct Stopped {
    pub cell: Arc<PromiseCell>,
    pub proof: LeaseId,
    /// When it arrived, and what its thread read on the clock then.
    pub decided: Moment,
}

impl Bench {
    /// The actor shows its cell, if it has another one than before.
    pub fn show_cell(&mut self) {
        let cell = self.lease.promise_cell();
        if cell.map(Arc::as_ptr) != self.shown.as_ref().map(Arc::as_ptr) {
            self.shown = cell.cloned();
            self.entry.clone_from(&self.shown);
        }
    }

    /// A heartbeat arrives, and its thread finds the cell that is shown.
    pub fn looks_up(&self, proof: LeaseId) -> Option<Stopped> {
        let cell = self.entry.clone()?;
        Some(Stopped { cell, proof, decided: self.now })
    }

    /// The thread goes on. `None`: nothing was promised, and the actor is to be asked.
    pub fn goes_on(&mut self, Stopped { cell, proof, decided }: Stopped) -> Option<Who> {
        let beat = Heartbeat::new(proof);
        let absorbed = self.context.absorb_in(&cell, &beat, decided, decided)?;
        let (token, valid_for_ms) = (absorbed.token, absorbed.valid_for_ms);
        let answer = Answer::Alive { token, valid_for_ms, revived: false };
        let who = Who::new(decided, Request::Heartbeat(beat));
        who.tell(answer.clone());
        let told = self.oracle.told(&who, &answer, self.now, &self.cell);
        self.judge(told);
        Some(who)
    }

    /// A heartbeat whose thread is not stopped.
    pub fn beside(&mut self, proof: LeaseId) -> Option<Who> {
        let stopped = self.looks_up(proof)?;
        self.goes_on(stopped)
    }
}
