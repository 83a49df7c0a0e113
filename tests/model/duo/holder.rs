//! The session's holder, as the shell serves it, and the rival.

use tenure::lease::{CLIENT_DRIFT, LeaseId, Moment, Token};

use super::{NOW, OLDEST, TICK_MS};
use crate::{harness::ms, model::caller::Number};

/// Where the shell is with a grant under the session.
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
pub struct Holder {
    pub stage: Stage,
    /// When the present call of the stage was sent.
    pub sent: Moment,
    /// When a heartbeat of the session was sent that is not answered.
    pub beating: Option<Moment>,
    /// The session is being given back.
    pub leaving: bool,
    /// The tenure that it heard of.
    pub kept: Option<(LeaseId, Token)>,
    /// Until when it may believe.
    pub until: Moment,
    pub attempts: u8,
}

/// The callers, each with a number of its own.
pub const BEAT: Number = Number(0);
pub const FIRST: Number = Number(1);
pub const SECOND: Number = Number(2);
pub const LEAVE: Number = Number(3);
const ACQUIRE: u8 = 8;
const RIVAL: u8 = 16;

impl Holder {
    pub fn acquires(&self) -> Number {
        Number(ACQUIRE + self.attempts)
    }

    pub fn believes(&self) -> bool {
        self.kept.is_some() && !self.leaving && self.until > NOW
    }

    pub fn believe(&mut self, sent: Moment, valid_for_ms: u64) {
        self.until = self.until.max(sent + CLIENT_DRIFT.stretch(ms(valid_for_ms)));
    }

    /// The callers that are still there.
    pub fn present(&self) -> impl Iterator<Item = Number> {
        let stage = match self.stage {
            Stage::Asking => Some(FIRST),
            Stage::Acquiring => Some(self.acquires()),
            Stage::AskingAgain(..) => Some(SECOND),
            _ => None,
        };
        let beat = self.beating.map(|_| BEAT);
        let leave = self.leaving.then_some(LEAVE);
        [stage, beat, leave].into_iter().flatten()
    }

    pub fn age(&mut self) {
        let earlier = |at: Moment| (at - ms(TICK_MS)).max(OLDEST);
        self.until = later(self.until);
        self.sent = match self.stage {
            Stage::AskingAgain(..) => earlier(self.sent),
            _ => Moment::ZERO,
        };
        self.beating = self.beating.map(earlier);
    }

    /// Its process at the other end is no more.
    pub fn forsaken(&mut self) {
        (self.stage, self.sent, self.beating) = (Stage::Idle, Moment::ZERO, None);
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rival {
    /// When it asked, if it waits.
    pub asked: Option<Moment>,
    pub token: Option<Token>,
    pub until: Moment,
    pub attempts: u8,
}

impl Rival {
    pub fn number(&self) -> Number {
        Number(RIVAL + self.attempts)
    }

    pub fn believes(&self) -> bool {
        self.until > NOW
    }

    pub fn age(&mut self) {
        self.until = later(self.until);
        self.asked = self.asked.map(|at| (at - ms(TICK_MS)).max(OLDEST));
    }
}

/// A moment in the future, one tick later; zero when it has come.
fn later(until: Moment) -> Moment {
    let until = until - ms(TICK_MS);
    if until > NOW { until } else { Moment::ZERO }
}
