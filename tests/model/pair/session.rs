//! The session that keeps the key for the first client, as the shells of two nodes serve it.
//!
//! A grant under it is seen through at one node, the session's home: the session is asked before the key is, and
//! again once the grant is durable, and only then is its holder told.

use tenure::lease::{
    Answer, Behavior, CLIENT_DRIFT, Call, Input, LeaseId, Moment, Request, SessionOver, SessionRef,
    Token,
};

use super::{
    DIGEST, KEY, NOW, SESSION, TICK_MS, TwoNodes,
    client::{Kind, Outstanding},
    world::{Action, Broken, Event, World},
};
use crate::{
    harness::{acquire, heartbeat, ms, release},
    model::caller::Number,
};

/// Where a node is with a grant under the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Stage {
    #[default]
    Idle,
    /// The session is asked whether it lives.
    Asking,
    /// It did.
    Seen,
    /// The key is asked for.
    Acquiring,
    /// It was granted.
    Granted(LeaseId, Token),
    /// The session is asked once more.
    AskingAgain(LeaseId, Token),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Session {
    /// What proves that a caller holds it.
    pub proof: Option<LeaseId>,
    /// When a heartbeat was sent that is not answered, and where.
    pub beat: Option<(Moment, usize)>,
    /// Until when its holder may believe in what it keeps.
    pub until: Moment,
    /// Its holder sent its end.
    pub closed: bool,
    pub stage: Stage,
    /// At which node, and when the present call of that stage was sent.
    pub at: usize,
    pub sent: Moment,
}

/// The callers, each with a number of its own, beyond those of the clients.
pub const BEAT: Number = Number(16);
pub const FIRST: Number = Number(17);
pub const SECOND: Number = Number(18);
const LEAVE: Number = Number(19);

impl Session {
    /// The callers that are still there.
    pub fn present(&self) -> impl Iterator<Item = Number> {
        let stage = match self.stage {
            Stage::Asking => Some(FIRST),
            Stage::AskingAgain(..) => Some(SECOND),
            _ => None,
        };
        let beat = self.beat.map(|_| BEAT);
        let leave = self.closed.then_some(LEAVE);
        [stage, beat, leave].into_iter().flatten()
    }

    fn believe(&mut self, sent: Moment, valid_for_ms: u64) {
        let until = sent + CLIENT_DRIFT.stretch(ms(valid_for_ms));
        if until > NOW {
            self.until = self.until.max(until);
        }
    }

    fn give_up(&mut self) {
        (self.stage, self.at, self.sent) = (Stage::Idle, 0, Moment::ZERO);
    }

    /// The node at the other end is no more.
    pub fn forsaken(&mut self, at: usize) {
        self.beat = self.beat.filter(|(_, other)| *other != at);
        if self.at == at {
            self.give_up();
        }
    }

    /// One tick passes.
    pub fn age(&mut self) {
        self.until = self.until - ms(TICK_MS);
        if self.until <= NOW || self.closed {
            self.until = Moment::ZERO;
        }
    }
}

impl World {
    /// The session lives at the first node, and keeps the key or not.
    pub fn with_session(&mut self, model: &TwoNodes) {
        let mut ask = acquire("a").ttl_ms(TICK_MS);
        ask.0.grant_nonce = DIGEST;
        self.session.proof =
            Some(model.context.secret.lease_id(&super::node::key_of(SESSION), DIGEST));
        self.session.beat = Some((NOW, 0));
        self.ask(model, 0, SESSION, BEAT, ask.into());
        self.act(model, &Action::Commit(0, SESSION));
        if model.bounds.kept {
            self.act(model, &Action::Want(0));
            self.act(model, &Action::GoOn);
            self.act(model, &Action::Commit(0, KEY));
            if model.bounds.heard {
                self.act(model, &Action::GoOn);
            }
        }
    }

    pub fn actions_of_session(&self, model: &TwoNodes, out: &mut Vec<Action>) {
        let (bounds, session) = (&model.bounds, &self.session);
        let holder = &self.clients[0];
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.runs) {
            if !session.closed && session.beat.is_none() {
                out.push(Action::Beat(at));
            }
            if !session.closed && bounds.ends_session {
                out.push(Action::EndSession(at));
            }
            let wants = session.stage == Stage::Idle && holder.call.is_none();
            if !session.closed && wants && holder.attempts < bounds.attempts[0] {
                out.push(Action::Want(at));
            }
            let view = || node.leases[SESSION].view(NOW).expires_in_ms;
            let observed = model.faults.observed_expiry && view() == Some(0);
            if self.session_is_dead() || observed {
                out.push(Action::Tell(at));
            }
        }
        if matches!(session.stage, Stage::Seen | Stage::Granted(..)) {
            out.push(Action::GoOn);
        }
    }

    pub fn act_on_session(&mut self, model: &TwoNodes, action: &Action) {
        let proof = self.session.proof.expect("there is a session");
        match *action {
            Action::Beat(at) => {
                self.session.beat = Some((NOW, at));
                self.ask(model, at, SESSION, BEAT, heartbeat(proof));
            }
            Action::EndSession(at) => {
                self.session.closed = true;
                self.session.until = Moment::ZERO;
                self.ask(model, at, SESSION, LEAVE, release(proof));
            }
            Action::Want(at) => {
                (self.session.stage, self.session.at) = (Stage::Asking, at);
                self.ask(model, at, SESSION, FIRST, heartbeat(proof));
            }
            Action::GoOn => self.go_on(model, proof),
            Action::Tell(at) => {
                let over = SessionOver {
                    session: DIGEST,
                    cause: "over".into(),
                    is_lost: false,
                    actor: None,
                };
                self.step(model, at, KEY, Input::SessionOver(over));
            }
            _ => unreachable!("not about the session"),
        }
    }

    fn ask(&mut self, model: &TwoNodes, at: usize, which: usize, caller: Number, request: Request) {
        if self.beside(model, (at, which), caller, &request) {
            return;
        }
        let home_unreachable = matches!(request, Request::Release(_));
        let call = Call { caller, received: NOW, request, home_unreachable };
        self.step(model, at, which, Input::Call(call));
    }

    fn go_on(&mut self, model: &TwoNodes, proof: LeaseId) {
        let at = self.session.at;
        match self.session.stage {
            Stage::Seen => {
                self.session.stage = Stage::Acquiring;
                let holder = &mut self.clients[0];
                holder.attempts += 1;
                let caller = holder.number(0, Kind::Acquire);
                holder.call = Some(Outstanding { kind: Kind::Acquire, caller, sent: NOW, at });
                let session_ref = SessionRef {
                    session: DIGEST,
                    lock_delay_ms: None,
                    behavior: Behavior::Release,
                };
                let ask =
                    acquire("a").ttl_ms(TICK_MS).kept_by(session_ref).waiting_until(Moment::NEVER);
                let mut ask = ask.id(0, 0);
                ask.0.grant_nonce = tenure::lease::Nonce(1000 + u128::from(caller.0));
                self.ask(model, at, KEY, caller, ask.into());
            }
            Stage::Granted(lease, token) if model.faults.grant_unseen => {
                self.tell_grant(model, lease, token);
                self.session.believe(NOW, TICK_MS);
            }
            Stage::Granted(lease, token) => {
                self.session.stage = Stage::AskingAgain(lease, token);
                self.session.sent = NOW;
                self.ask(model, at, SESSION, SECOND, heartbeat(proof));
            }
            _ => {}
        }
    }

    /// What the session's lease or the key's says to the node that sees a grant through, or to the holder.
    pub fn session_hears(&mut self, model: &TwoNodes, at: usize, caller: Number, answer: &Answer) {
        let alive = match answer {
            Answer::Alive { valid_for_ms, .. } => Some(*valid_for_ms),
            Answer::Granted(grant) => Some(grant.valid_for_ms),
            _ => None,
        };
        if let Answer::Alive { token, .. } = answer {
            self.promised(at, SESSION, *token);
        }
        match (caller, self.session.stage) {
            (BEAT, _) => {
                if let (Some((sent, _)), Some(valid)) = (self.session.beat.take(), alive) {
                    self.session.believe(sent, valid);
                }
            }
            (FIRST, Stage::Asking) if alive.is_some() => self.session.stage = Stage::Seen,
            (FIRST, Stage::Asking) => self.session.give_up(),
            (SECOND, Stage::AskingAgain(lease, token)) => {
                if let Some(valid) = alive {
                    let sent = self.session.sent;
                    self.tell_grant(model, lease, token);
                    self.session.believe(sent, valid);
                } else {
                    self.session.give_up();
                }
            }
            _ => {}
        }
    }

    /// The key's lease answered the node that sees a grant through.
    pub fn session_granted(&mut self, answer: &Answer) {
        match answer {
            Answer::Granted(grant) if self.session.stage == Stage::Acquiring => {
                self.session.stage = Stage::Granted(grant.lease_id, grant.view.token);
            }
            _ => self.session.give_up(),
        }
    }

    fn tell_grant(&mut self, model: &TwoNodes, lease: LeaseId, token: Token) {
        let holder = &mut self.clients[0];
        (holder.proof, holder.closed) = (Some((lease, token)), false);
        self.session.give_up();
        if !self.is_durable(KEY, token) {
            self.broken = Some(Broken::NotDurable);
        }
        model.saw(Event::ToldUnderSession);
    }
}
