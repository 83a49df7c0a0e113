//! A client: what it asks, and when it may believe that it holds the key.

use tenure::lease::{Answer, CLIENT_DRIFT, LeaseId, Moment, Token};

use super::{Flaw, NOW, TICK_MS, caller::Number};
use crate::harness::ms;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Acquire,
    Heartbeat,
    Release,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// On its way to the server.
    Sent,
    /// With the server.
    Server,
    /// Answered; the reply is on its way.
    Answered(Told),
    /// The server it was with is no more.
    Orphaned,
}

/// What a reply says, as far as it matters to windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Granted { token: Token, proof: LeaseId, window: Window },
    Alive { token: Token, window: Window },
    Lost,
    Other,
}

/// Until when a client may believe, by the moment at which it sent, or from its reply on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    Until(Moment),
    FromReply(u64),
}

impl Window {
    /// The client's clock may be the slowest that is allowed.
    fn new(sent: Moment, valid_for_ms: u64, flaw: Option<Flaw>) -> Self {
        if flaw == Some(Flaw::ClientCountsFromReply) {
            Self::FromReply(valid_for_ms)
        } else {
            Self::Until(sent + CLIENT_DRIFT.stretch(ms(valid_for_ms)))
        }
    }

    fn end(self) -> Moment {
        match self {
            Self::Until(until) => until,
            Self::FromReply(valid_for_ms) => NOW + ms(valid_for_ms),
        }
    }
}

impl Told {
    pub fn new(answer: &Answer, sent: Moment, flaw: Option<Flaw>) -> Self {
        match answer {
            Answer::Granted(grant) => Self::Granted {
                token: grant.view.token,
                proof: grant.lease_id,
                window: Window::new(sent, grant.valid_for_ms, flaw),
            },
            Answer::Alive { token, valid_for_ms, .. } => {
                Self::Alive { token: *token, window: Window::new(sent, *valid_for_ms, flaw) }
            }
            Answer::Lost(_) => Self::Lost,
            _ => Self::Other,
        }
    }

    /// One tick passes; a window that is over is as good as none.
    pub fn age(&mut self) {
        if let Self::Granted { window, .. } | Self::Alive { window, .. } = self
            && let Window::Until(until) = window
        {
            *until = aged(*until);
        }
    }
}

/// A moment in the future, one tick later; zero when it has come.
pub fn aged(until: Moment) -> Moment {
    let until = until - ms(TICK_MS);
    if until > NOW { until } else { Moment::ZERO }
}

/// The one call that a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outstanding {
    pub kind: Kind,
    pub caller: Number,
    pub sent: Moment,
    pub at: At,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    pub call: Option<Outstanding>,
    /// The tenure that it was granted last.
    pub proof: Option<(LeaseId, Token)>,
    /// Until when it may believe that it holds the key.
    pub until: Moment,
    /// Its window is closed forever.
    pub closed: bool,
    /// How many request ids it has used.
    pub rounds: u8,
    /// How often it has asked under the present one.
    pub attempts: u8,
    /// How many other calls it gave up.
    pub given_up: u8,
}

impl Client {
    pub fn believes(&self) -> bool {
        !self.closed && self.until > NOW
    }

    pub fn token(&self) -> Option<Token> {
        self.proof.map(|(_, token)| token)
    }

    /// Its calls, each with a number of its own.
    pub fn number(&self, me: usize, kind: Kind) -> Number {
        let of_mine = match kind {
            Kind::Acquire => self.rounds * 4 + self.attempts,
            Kind::Heartbeat | Kind::Release => 16 + self.given_up,
        };
        Number(u8::try_from(me * 32).unwrap() + of_mine)
    }

    pub fn send(&mut self, me: usize, kind: Kind, flaw: Option<Flaw>) {
        if kind == Kind::Release && flaw != Some(Flaw::WindowOpenAfterRelease) {
            self.closed = true;
        }
        let caller = self.number(me, kind);
        self.call = Some(Outstanding { kind, caller, sent: NOW, at: At::Sent });
    }

    /// The reply arrives.
    pub fn hear(&mut self, told: Told) {
        match told {
            Told::Granted { token, proof, window } => {
                if self.token() != Some(token) {
                    self.proof = Some((proof, token));
                    self.until = Moment::ZERO;
                    self.closed = false;
                }
                self.until = self.until.max(window.end());
            }
            Told::Alive { token, window } if self.token() == Some(token) => {
                self.until = self.until.max(window.end());
            }
            Told::Lost => self.closed = true,
            Told::Alive { .. } | Told::Other => {}
        }
    }
}
