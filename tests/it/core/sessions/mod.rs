//! R6: a session is a lease on a key of its own; leases that it keeps end after its tombstone.

mod kept;
mod mutants;
mod tombstone;

use tenure::lease::{
    Answer, Behavior, CLIENT_DRIFT, ChangeKind, Epoch, Input, Inquiry, Key, Moment, Mutant, Nonce,
    Refusal, Request, SessionOver, SessionRef, Token,
};

use crate::core::harness::*;

const DIGEST: Nonce = Nonce(0x5e55);

fn session_ref() -> SessionRef {
    SessionRef { session: DIGEST, lock_delay_ms: None, behavior: Behavior::Release }
}

/// Broken variants of the shell between a session and what it keeps.
#[derive(Clone, Copy, Debug, Default)]
struct SessionFaults {
    /// A lease is told that its session is over when its time is seen to be over.
    observed_expiry: bool,
    /// A grant is told without seeing the session alive after it.
    grant_unseen: bool,
}

/// A session's key and one that it keeps, each with its own lease, and the shell between them.
struct Duo {
    session: Bench,
    key: Bench,
    holder: Who,
    faults: SessionFaults,
    /// The tenure that the holder heard of.
    believed: Option<Token>,
    /// Until when it may believe, by what the session's home said.
    window: Moment,
    verdict: Verdict,
}

impl Duo {
    fn new() -> Self {
        Self::breaking(None, SessionFaults::default())
    }

    fn breaking(mutant: Option<Mutant>, faults: SessionFaults) -> Self {
        let mut session = Bench::of(Key::of_session(DIGEST), mutant);
        let holder = session.done(acquire("a"));
        let key = Bench::breaking(mutant);
        let (believed, window, verdict) = (None, Moment::ZERO, Ok(()));
        Self { session, key, holder, faults, believed, window, verdict }
    }

    /// The session keeps the key.
    fn kept(session_ref: SessionRef) -> (Self, Who) {
        let mut duo = Self::new();
        let kept = duo.grant(acquire("a").value("page 7").kept_by(session_ref));
        (duo, kept)
    }

    fn pass(&mut self, span_ms: u64) {
        self.session.pass(span_ms);
        self.key.pass(span_ms);
    }

    fn run(&mut self, span_ms: u64) {
        self.session.run(span_ms);
        self.key.run(span_ms);
        self.judge();
    }

    /// The session's heartbeat, if it is answered.
    fn alive(&mut self) -> Option<u64> {
        let beat = self.session.ask(heartbeat(self.holder.proof()));
        if beat.waits() {
            return None;
        }
        let Answer::Alive { valid_for_ms, .. } = beat.answer() else { return None };
        self.believe(valid_for_ms);
        Some(valid_for_ms)
    }

    fn believe(&mut self, valid_for_ms: u64) {
        let until = self.session.now + CLIENT_DRIFT.stretch(ms(valid_for_ms));
        self.window = self.window.max(until);
        self.judge();
    }

    /// What the shell does: it sees the session alive before the grant and after it.
    fn grant(&mut self, ask: Ask) -> Who {
        self.alive().expect("the session lives");
        let who = self.key.done(ask);
        self.told(&who);
        who
    }

    /// The shell tells the holder of a grant, if it may.
    fn told(&mut self, who: &Who) {
        self.believed = Some(who.grant().view.token);
        if self.faults.grant_unseen {
            self.believe(TTL_MS);
        } else if self.alive().is_none() {
            self.believed = None;
        }
    }

    /// The shell looks at the session's record, and tells the lease if it is a tombstone.
    fn look(&mut self) -> bool {
        let over = self.is_over();
        let view = self.session.lease.view(self.session.now);
        let observed = self.faults.observed_expiry && view.expires_in_ms == Some(0);
        if over || observed {
            self.tell();
        }
        over
    }

    fn is_over(&self) -> bool {
        Inquiry::of(DIGEST, &self.session.cell.load()).is_over()
    }

    fn tell(&mut self) {
        let over = SessionOver {
            session: DIGEST,
            cause: "its ttl ran out".into(),
            is_lost: false,
            actor: None,
        };
        self.key.input(Input::SessionOver(over));
    }

    /// The session ends by expiry, and the lease is told.
    fn end(&mut self) {
        self.run(TTL_MS);
        assert!(self.look());
    }

    /// I1 and I6: what a session kept goes to nobody else before its tombstone, nor while its holder
    /// may believe.
    fn judge(&mut self) {
        let Some(believed) = self.believed else { return };
        let next = |change: &&tenure::lease::Change| {
            change.kind == ChangeKind::Granted && change.token > believed
        };
        let Some(next) = self.key.cell.history.iter().find(next) else { return };
        let ended = self.key.cell.history.iter().any(|change| {
            change.kind == ChangeKind::SessionEnded
                && change.previous.as_ref().is_some_and(|(_, token)| *token == believed)
        });
        if !ended || self.verdict.is_err() {
            return;
        }
        if !self.is_over() {
            self.verdict = Err(format!("I6: {next:?} before the tombstone"));
        } else if self.window > self.key.now {
            self.verdict = Err(format!("I1: {next:?} before {:?}", self.window));
        }
    }

    /// The judge's word, which is then forgotten.
    fn word(&mut self) -> Verdict {
        std::mem::replace(&mut self.verdict, Ok(()))
    }
}

impl Drop for Duo {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.verdict, Ok(()), "the judge objects");
        }
    }
}

#[track_caller]
fn refused(who: &Who) -> Refusal {
    match who.answer() {
        Answer::Refused(why, _) => why,
        other => panic!("not refused: {other:?}"),
    }
}
