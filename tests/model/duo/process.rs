//! What the process does with the effects of its two leases, and what becomes of that.

use tenure::lease::{
    Answer, ChangeKind, Effect, Env, Input, KeyState, Nonce, Revision, Token, WriteEffect,
};

use super::{
    Duo, NOW,
    holder::{BEAT, FIRST, SECOND, Stage},
    world::{Broken, Event, KEY, SESSION, World, key, recovered},
};
use crate::{harness::ms, model::caller::Number};

impl World {
    pub fn step(&mut self, model: &Duo, which: usize, input: Input<Number>) {
        let rival = self.rival.asked.map(|_| self.rival.number());
        Number::present(self.holder.present().chain(rival));
        // One process starts one write on one revision.
        let next = Nonce(100 + u128::from(self.revision(which).0));
        let (key, mut nonces) = (key(which), || next);
        let context = &model.context;
        let mut env = Env { now: NOW, wall_ms: 0, key: &key, context, nonces: &mut nonces };
        let effects = self.leases[which].step(input, &mut env);
        self.perform(which, effects);
    }

    fn perform(&mut self, which: usize, effects: Vec<Effect<Number>>) {
        for effect in effects {
            match effect {
                Effect::Write(write) => self.flights[which] = Some(write),
                Effect::Read(read_for) => self.reads[which] = Some(read_for),
                Effect::Reply(caller, answer) => self.reply(caller, &answer),
                _ => {}
            }
        }
    }

    pub fn reply(&mut self, caller: Number, answer: &Answer) {
        let alive = match answer {
            Answer::Alive { valid_for_ms, .. } => Some(*valid_for_ms),
            _ => None,
        };
        match (caller, self.holder.stage) {
            (BEAT, _) => {
                let sent = self.holder.beating.take();
                if let (Some(sent), Some(valid)) = (sent, alive) {
                    self.holder.believe(sent, valid);
                }
            }
            (FIRST, Stage::Asking) if alive.is_some() => self.holder.stage = Stage::Seen,
            (FIRST, Stage::Asking) => self.next_attempt(),
            (SECOND, Stage::AskingAgain(proof, token)) => {
                let sent = self.holder.sent;
                if let Some(valid) = alive {
                    self.tell_grant(proof, token);
                    self.holder.believe(sent, valid);
                } else {
                    self.next_attempt();
                }
            }
            (caller, Stage::Acquiring) if caller == self.holder.acquires() => match answer {
                Answer::Granted(grant) => {
                    self.holder.stage = Stage::Granted(grant.lease_id, grant.view.token);
                }
                _ => self.next_attempt(),
            },
            (caller, _) if caller == self.rival.number() => {
                let Some(asked) = self.rival.asked.take() else { return };
                self.rival.attempts += 1;
                if let Answer::Granted(grant) = answer {
                    let span = tenure::lease::CLIENT_DRIFT.stretch(ms(grant.valid_for_ms));
                    self.rival.token = Some(grant.view.token);
                    self.rival.until = asked + span;
                }
            }
            _ => {}
        }
    }

    pub fn land(&mut self, which: usize, write: WriteEffect) -> Option<Revision> {
        if self.revision(which) != write.expected {
            return None;
        }
        let revision = Revision(write.expected.0 + 1);
        let dead = self.session_is_over();
        let before =
            self.stores[which].as_ref().map_or(Token::default(), |(at, record)| record.token(*at));
        let mut ended = false;
        for change in &write.changes {
            ended |= change.kind == ChangeKind::SessionEnded;
            if change.kind == ChangeKind::SessionEnded && !dead {
                self.broken = Some(Broken::BeforeTombstone);
            }
            let granted = change.kind == ChangeKind::Granted;
            if granted && change.reason.is_none() && write.record.token(revision) <= before {
                self.broken = Some(Broken::Tokens);
            }
            if granted && ended {
                self.event = Some(Event::Followed);
            }
            if granted && dead && change.session.is_some() {
                self.event = Some(Event::LandedLate);
            }
        }
        if which == SESSION && dead && write.record.state == KeyState::Held {
            self.broken = Some(Broken::Risen);
        }
        self.stores[which] = Some((revision, write.record));
        Some(revision)
    }

    pub fn crash(&mut self, model: &Duo, written: [bool; 2]) {
        self.crashes += 1;
        for which in [SESSION, KEY] {
            if let Some(write) = self.flights[which].take()
                && written[which]
            {
                self.land(which, write);
            }
        }
        self.event = self.holder.believes().then_some(Event::RestartedUnderHolder);
        (self.stray, self.reads) = (None, [None; 2]);
        if self.holder.stage != Stage::Idle {
            self.next_attempt();
        }
        self.holder.forsaken();
        if self.rival.asked.take().is_some() {
            self.rival.attempts += 1;
        }
        for which in [SESSION, KEY] {
            let (lease, effects) = recovered(model, which, &self.stores[which]);
            self.leases[which] = lease;
            self.perform(which, effects);
        }
    }
}
