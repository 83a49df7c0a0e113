//! How many of several keys were in which state when they were tried.

use crate::lease::{KeyState, Refusal, View};

/// How many of an acquire-any's keys were in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// How many keys the call could choose from.
    pub keys: usize,
    /// How many keys other owners hold.
    pub held: usize,
    /// Held by the caller's owner already.
    pub held_by_you: usize,
    /// How many keys are offered to another owner.
    pub offered: usize,
    /// How many keys a lock-delay keeps closed.
    pub cooling: usize,
    /// Shut until a fence is confirmed.
    pub fencing: usize,
    /// Earlier calls wait for several of the keys, and those that are free are theirs.
    pub behind: bool,
    /// The shortest time until one of these states ends, in milliseconds.
    pub next_ms: Option<u64>,
}

impl Availability {
    /// Adds the counts of other keys.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            held: self.held + other.held,
            held_by_you: self.held_by_you + other.held_by_you,
            offered: self.offered + other.offered,
            cooling: self.cooling + other.cooling,
            fencing: self.fencing + other.fencing,
            behind: self.behind || other.behind,
            next_ms: self.next_ms.into_iter().chain(other.next_ms).min(),
        }
    }

    /// Counts a key that may be free.
    pub(super) fn add_unless_free(&mut self, why: Refusal, view: &View) {
        match view.state {
            KeyState::Free => {}
            KeyState::Cooling => self.add(Refusal::Cooling, view),
            KeyState::Fencing => self.add(Refusal::Fencing, view),
            KeyState::Held | KeyState::Offered => self.add(why, view),
        }
    }

    /// Counts a key that refused.
    pub(super) fn add(&mut self, why: Refusal, view: &View) {
        match (why, view.state) {
            (Refusal::HeldByYou, _) => self.held_by_you += 1,
            (_, KeyState::Offered) => self.offered += 1,
            (Refusal::Cooling, _) => self.cooling += 1,
            (Refusal::Fencing, _) => self.fencing += 1,
            _ => self.held += 1,
        }
        self.next_ms = self.next_ms.into_iter().chain(view.expires_in_ms).min();
    }
}
