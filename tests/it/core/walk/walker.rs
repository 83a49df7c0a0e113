//! Performs operations on a bench.

use tenure::lease::{
    Answer, Behavior, Input, KeyState, LeaseId, Mutant, Nonce, Request, SessionOver, SessionRef,
};

use super::operation::Operation;
use crate::core::harness::*;

const OWNERS: [&str; 3] = ["a", "b", "c"];

pub struct Walker {
    bench: Bench,
    /// Every caller that asked to own the key.
    askers: Vec<Who>,
    /// Heartbeats whose threads are stopped.
    stopped: Vec<Stopped>,
    /// The session that lives; those before it are over.
    session: Nonce,
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.bench.now, self.bench.lease)
    }
}

impl Walker {
    pub fn breaking(mutant: Option<Mutant>) -> Self {
        let bench = Bench::breaking(mutant);
        Self { bench, askers: Vec::new(), stopped: Vec::new(), session: Nonce(1) }
    }

    pub fn verdict(&self) -> &Verdict {
        &self.bench.verdict
    }

    /// Faults stop, and time passes.
    pub fn rest(&mut self) -> Verdict {
        if self.bench.verdict.is_ok() {
            // The feed tells of what landed behind the actor's back.
            self.read_again();
            self.bench.judge_liveness();
            if self.session > Nonce(1) {
                // The node that wrote the tombstone looks again later, for a grant that landed after it.
                self.sweep();
                self.bench.judge_liveness();
                self.judge_sessions();
            }
        }
        std::mem::replace(&mut self.bench.verdict, Ok(()))
    }

    /// The proofs that were handed out, the latest first.
    fn proof(&self, nth: usize) -> Option<LeaseId> {
        let granted = |who: &Who| match who.answers() {
            0 => None,
            _ => match who.answer() {
                Answer::Granted(grant) => Some(grant.lease_id),
                _ => None,
            },
        };
        self.askers.iter().rev().filter_map(granted).nth(nth)
    }

    fn speak(&mut self, proof: usize, request: impl FnOnce(LeaseId) -> Request) {
        if let Some(proof) = self.proof(proof) {
            self.bench.ask(request(proof));
        }
    }

    pub fn step(&mut self, operation: &Operation) {
        if self.bench.verdict.is_err() {
            return;
        }
        match *operation {
            Operation::Acquire { owner, ttl_ms, wait_ms, reclaim, id, kept } => {
                let mut ask = acquire(OWNERS[usize::from(owner)]).ttl_ms(ttl_ms);
                if wait_ms > 0 {
                    ask = ask.waiting_until(self.bench.now + ms(wait_ms));
                }
                if reclaim {
                    ask = ask.reclaiming();
                }
                if wait_ms == 3_000 {
                    ask = ask.min_hold_ms(ttl_ms / 2 * 3);
                }
                if let Some((id, body)) = id {
                    // An owner's ids are its own, and the digest of the body covers the owner.
                    ask = ask.id(u128::from(owner) * 8 + u128::from(id), u64::from(body));
                }
                if kept {
                    ask = ask.kept_by(SessionRef {
                        session: self.session,
                        lock_delay_ms: (ttl_ms == 4_000).then_some(3_000),
                        behavior: Behavior::Delete,
                    });
                }
                self.askers.push(self.bench.ask(ask));
            }
            Operation::Heartbeat { proof, value, ttl_ms } => {
                let value = value.map(|value| value.to_string());
                self.speak(proof, |id| heartbeat_with(id, value.as_deref(), ttl_ms));
            }
            Operation::LookUp { proof } => {
                let stopped = self.proof(proof).and_then(|proof| self.bench.looks_up(proof));
                self.stopped.extend(stopped);
            }
            Operation::GoOn { nth } if nth < self.stopped.len() => {
                let stopped = self.stopped.remove(nth);
                self.bench.goes_on(stopped);
            }
            Operation::Release { proof } => self.speak(proof, release),
            Operation::Transfer { proof, to } => {
                self.speak(proof, |id| match to {
                    Some(to) => transfer(id, OWNERS[usize::from(to)]),
                    None => hand_over(id, Some("page 8")),
                });
            }
            Operation::AskHandover => drop(self.bench.ask(ask_handover())),
            Operation::Revoke { immediately: true } => drop(self.bench.ask(revoke_immediately())),
            Operation::Revoke { immediately: false } => {
                let Request::Revoke(mut order) = revoke() else { return };
                order.floor = Some(self.bench.now + ms(1_000));
                self.bench.ask(Request::Revoke(order));
            }
            Operation::SkipFences => drop(self.bench.ask(skip())),
            Operation::SessionOver => {
                self.tell(self.session);
                self.session.0 += 1;
            }
            Operation::Pin { by } => drop(self.bench.ask(pin(&by.to_string()))),
            Operation::Unpin { by } => drop(self.bench.ask(unpin(&by.to_string()))),
            Operation::Leave { caller } => {
                if let Some(who) = self.bench.waiting.get(caller) {
                    who.leaves();
                }
            }
            ref of_the_world => self.suffer(of_the_world),
        }
    }

    /// Told once more which sessions are over, by somebody who read the record.
    fn sweep(&mut self) {
        self.read_again();
        for over in 1..self.session.0 {
            self.tell(Nonce(over));
        }
    }

    fn read_again(&mut self) {
        self.bench.strays.clear();
        let latest = self.bench.cell.latest();
        self.bench.input(Input::Stale(latest));
        self.bench.run(1_000);
    }

    fn tell(&mut self, session: Nonce) {
        self.bench.input(Input::SessionOver(SessionOver {
            session,
            cause: "expired".into(),
            is_lost: true,
            actor: None,
        }));
    }

    fn judge_sessions(&mut self) {
        let left = self.bench.cell.there.as_ref().and_then(|(_, record)| {
            let session_ref = record.session_ref().filter(|_| record.state == KeyState::Held)?;
            (session_ref.session < self.session && record.pins.is_empty())
                .then_some(session_ref.session)
        });
        if let Some(session) = left {
            self.bench.judge(Err(format!("R6: {session:?} is over, and keeps the key")));
        }
        let ended = |change: &&tenure::lease::Change| {
            change.kind == tenure::lease::ChangeKind::SessionEnded
                && change.session.is_none_or(|session| session >= self.session)
        };
        if let Some(early) = self.bench.cell.history.iter().find(ended).cloned() {
            self.bench.judge(Err(format!("R6: {early:?} before its session")));
        }
    }

    /// What store, clock and process do.
    fn suffer(&mut self, operation: &Operation) {
        let bench = &mut self.bench;
        match *operation {
            Operation::Commit if bench.flight.is_some() => bench.commit(),
            Operation::Refuse if bench.flight.is_some() => bench.refuse(),
            Operation::LoseReply { written } if bench.flight.is_some() => bench.lose_reply(written),
            Operation::StrayLands => bench.stray_lands(),
            Operation::ReadBack if !bench.reads.is_empty() => bench.read_back(),
            Operation::ReadFails if !bench.reads.is_empty() => bench.read_fails(),
            Operation::Pass { ms } => bench.pass(ms),
            Operation::Wake => bench.wake(),
            Operation::Lapse => bench.lease.extend_by_one_ttl(bench.now),
            Operation::Restart { written, away_ms } => {
                // The threads of the process are no more.
                self.stopped.clear();
                bench.restart(written, away_ms);
            }
            Operation::Rebuild => bench.rebuild(),
            Operation::Policy { lock_delay_ms, ref fence } => {
                bench.context.policies = ruled(lock_delay_ms, fence.clone());
            }
            Operation::Report { nth, ref outcome } if nth < bench.fences.len() => {
                bench.report_nth(nth, outcome.clone());
            }
            _ => {}
        }
        // Whoever asks after a session that is over is told.
        for session in std::mem::take(&mut self.bench.inquired) {
            if session < self.session {
                self.tell(session);
            }
        }
    }
}
