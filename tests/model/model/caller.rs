//! A caller that is a number, so that a state of the world can be compared and hashed.

use std::cell::Cell;

use tenure::lease::Caller;

thread_local! {
    /// Which callers are still there, a bit each; set before every step from the state of the world.
    static PRESENT: Cell<u64> = const { Cell::new(0) };
}

/// One call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number(pub u8);

impl Number {
    /// Makes these the callers that are still there, for the steps of this thread that follow.
    pub fn present(callers: impl Iterator<Item = Self>) {
        PRESENT.set(callers.fold(0, |bits, Self(n)| bits | 1 << n));
    }
}

impl Caller for Number {
    fn is_gone(&self) -> bool {
        PRESENT.get() & (1 << self.0) == 0
    }

    fn claim(&self) -> bool {
        !self.is_gone()
    }

    fn unclaim(&self) {}
}
