//! A client: what it asks, and when it may believe that it holds the key.

use tenure::lease::{Answer, CLIENT_DRIFT, LeaseId, Moment, Token};

use super::{NOW, TICK_MS};
use crate::{harness::ms, model::caller::Number};

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Acquire,
    Heartbeat,
    /// The home, if it is elsewhere, does not answer.
    Release,
}

/// The one call that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outstanding {
    pub kind: Kind,
    pub caller: Number,
    pub sent: Moment,
    pub at: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    pub call: Option<Outstanding>,
    /// The tenure that it was granted.
    pub proof: Option<(LeaseId, Token)>,
    /// Until when it may believe that it holds the key. That it lost the key it never believes: a
    /// window that closes early hides nothing.
    pub until: Moment,
    /// It sent a release.
    pub closed: bool,
    /// How often it has asked for the key.
    pub attempts: u8,
}

impl Client {
    pub fn believes(&self) -> bool {
        !self.closed && self.until > NOW
    }

    pub fn token(&self) -> Option<Token> {
        self.proof.map(|(_, token)| token)
    }

    /// Its calls for the key have a number each, all others share one: only one is under way.
    pub fn number(&self, me: usize, kind: Kind) -> Number {
        let of_mine = if kind == Kind::Acquire { self.attempts } else { 7 };
        Number(u8::try_from(me * 8).unwrap() + of_mine)
    }

    pub fn send(&mut self, me: usize, kind: Kind, at: usize) -> Number {
        self.closed |= kind == Kind::Release;
        let caller = self.number(me, kind);
        self.call = Some(Outstanding { kind, caller, sent: NOW, at });
        caller
    }

    /// The reply arrives at once: a later one would only open its window later.
    pub fn hear(&mut self, answer: &Answer, sent: Moment) {
        let until = |valid_for_ms| sent + CLIENT_DRIFT.stretch(ms(valid_for_ms));
        match answer {
            Answer::Granted(grant) => {
                if self.token() != Some(grant.view.token) {
                    self.proof = Some((grant.lease_id, grant.view.token));
                    (self.until, self.closed) = (Moment::ZERO, false);
                }
                self.until = self.until.max(until(grant.valid_for_ms));
            }
            Answer::Alive { valid_for_ms, .. } => {
                self.until = self.until.max(until(*valid_for_ms));
            }
            _ => {}
        }
        if self.until <= NOW {
            self.until = Moment::ZERO;
        }
    }

    /// One tick passes.
    pub fn age(&mut self, oldest: Moment) {
        let by = ms(TICK_MS);
        self.until = self.until - by;
        if self.until <= NOW || self.closed {
            self.until = Moment::ZERO;
        }
        if let Some(call) = &mut self.call {
            call.sent = (call.sent - by).max(oldest);
        }
    }
}
