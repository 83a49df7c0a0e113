//! Performs deeds on a bench.

use tenure::lease::{Answer, LeaseId, Mutant, Request};

use super::deed::Deed;
use crate::harness::*;

const OWNERS: [&str; 3] = ["a", "b", "c"];

pub struct Walker {
    bench: Bench,
    /// Every caller that asked to own the key.
    askers: Vec<Who>,
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.bench.now, self.bench.lease)
    }
}

impl Walker {
    pub fn breaking(mutant: Option<Mutant>) -> Self {
        Self { bench: Bench::breaking(mutant), askers: Vec::new() }
    }

    pub fn verdict(&self) -> &Verdict {
        &self.bench.verdict
    }

    /// Faults stop, and time passes.
    pub fn rest(&mut self) -> Verdict {
        if self.bench.verdict.is_ok() {
            self.bench.judge_liveness();
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

    pub fn step(&mut self, deed: &Deed) {
        if self.bench.verdict.is_err() {
            return;
        }
        match *deed {
            Deed::Acquire { owner, ttl_ms, wait_ms, reclaim, id } => {
                self.acquire(owner, ttl_ms, wait_ms, reclaim, id);
            }
            Deed::Heartbeat { proof, value, ttl_ms } => {
                let value = value.map(|value| value.to_string());
                self.speak(proof, |id| heartbeat_with(id, value.as_deref(), ttl_ms));
            }
            Deed::Release { proof } => self.speak(proof, release),
            Deed::Transfer { proof, to } => {
                self.speak(proof, |id| transfer(id, OWNERS[usize::from(to)]));
            }
            Deed::Revoke { immediately: true } => drop(self.bench.ask(revoke_immediately())),
            Deed::Revoke { immediately: false } => drop(self.bench.ask(revoke())),
            Deed::Pin { by } => drop(self.bench.ask(pin(&by.to_string()))),
            Deed::Unpin { by } => drop(self.bench.ask(unpin(&by.to_string()))),
            Deed::Leave { caller } => {
                if let Some(who) = self.bench.waiting.get(caller) {
                    who.leaves();
                }
            }
            ref of_the_world => self.suffer(of_the_world),
        }
    }

    fn acquire(
        &mut self,
        owner: u8,
        ttl_ms: u64,
        wait_ms: u64,
        reclaim: bool,
        id: Option<(u8, u8)>,
    ) {
        let mut ask = acquire(OWNERS[usize::from(owner)]).ttl_ms(ttl_ms);
        if wait_ms > 0 {
            ask = ask.waiting_until(self.bench.now + ms(wait_ms));
        }
        if reclaim {
            ask = ask.reclaiming();
        }
        if let Some((id, body)) = id {
            // An owner's ids are its own, and the digest of the body covers the owner.
            ask = ask.id(u128::from(owner) * 8 + u128::from(id), u64::from(body));
        }
        self.askers.push(self.bench.ask(ask));
    }

    /// What store, clock and process do.
    fn suffer(&mut self, deed: &Deed) {
        let bench = &mut self.bench;
        match *deed {
            Deed::Commit if bench.flight.is_some() => bench.commit(),
            Deed::Refuse if bench.flight.is_some() => bench.refuse(),
            Deed::LoseReply { written } if bench.flight.is_some() => bench.lose_reply(written),
            Deed::StrayLands => bench.stray_lands(),
            Deed::ReadBack if bench.reads > 0 => bench.read_back(),
            Deed::ReadFails if bench.reads > 0 => bench.read_fails(),
            Deed::Pass { ms } => bench.pass(ms),
            Deed::Wake => bench.wake(),
            Deed::Lapse => bench.lease.void_promises(bench.now),
            Deed::Restart { written, away_ms } => bench.restart(written, away_ms),
            Deed::Rebuild => bench.rebuild(),
            _ => {}
        }
    }
}
