//! What an ended tenure left to be done, and what became of it.

use tenure::lease::{ChangeKind, FenceRun, Moment, Token, WriteEffect};

use super::{After, MIN_HOLD_MS, NOW, TICK_MS, client::aged, world::Broken};
use crate::harness::ms;

/// The fence or the lock-delay of the tenure that ended last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ended {
    /// The tenure that is to be fenced, or was; it never goes on.
    fenced: Option<Token>,
    /// Whether a plugin confirmed that.
    confirmed: bool,
    /// Whether the confirmation is durable.
    durable: bool,
    /// Whether the plugin runs for it.
    pub running: Option<Token>,
    /// Until when nobody else may be granted the key.
    shut: Moment,
    /// It was shut, and nobody was granted it since.
    was_shut: bool,
    /// Whether a caller was told of the last grant. A grant that no caller heard of leaves no minimum hold.
    was_told: bool,
}

impl Ended {
    pub fn run(&mut self, run: &FenceRun) {
        self.running = Some(run.token);
    }

    pub fn confirm(&mut self, token: Token) {
        self.confirmed |= self.fenced == Some(token);
    }

    /// A caller is told of the last grant.
    pub fn tell(&mut self) {
        self.was_told = true;
    }

    pub fn age(&mut self) {
        self.shut = aged(self.shut);
    }

    /// Whether the last tenure left something.
    pub fn is_something(&self) -> bool {
        self.fenced.is_some() || self.was_shut
    }

    /// A write landed: whether it was allowed.
    pub fn landed(&mut self, after: After, write: &WriteEffect) -> Option<Broken> {
        let mut broken = None;
        for change in &write.changes {
            let revived = change.reason.is_some();
            match change.kind {
                ChangeKind::Expired if after == After::Fence => {
                    self.fenced = change.previous.as_ref().map(|(_, token)| *token);
                    (self.confirmed, self.durable) = (false, false);
                }
                ChangeKind::Expired if after == After::LockDelay => {
                    (self.shut, self.was_shut) = (NOW + ms(TICK_MS), true);
                }
                ChangeKind::Fenced => {
                    if !self.confirmed {
                        broken = Some(Broken::Unfenced);
                    }
                    self.durable = true;
                }
                ChangeKind::Granted if revived && after == After::MinimumHold => {}
                ChangeKind::Granted if revived => {
                    if self.fenced == Some(change.token) {
                        broken = Some(Broken::Unfenced);
                    }
                    (self.shut, self.was_shut) = (Moment::ZERO, false);
                }
                ChangeKind::Granted => {
                    if self.fenced.is_some() && !self.durable {
                        broken = Some(Broken::Unfenced);
                    }
                    if self.shut > NOW && (self.was_told || after != After::MinimumHold) {
                        broken = Some(Broken::TooEarly);
                    }
                    (self.fenced, self.shut, self.was_shut) = (None, Moment::ZERO, false);
                    self.was_told = false;
                    if after == After::MinimumHold {
                        (self.shut, self.was_shut) = (NOW + ms(MIN_HOLD_MS), true);
                    }
                }
                _ => {}
            }
        }
        broken
    }
}
