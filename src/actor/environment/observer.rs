//! For tests: tells of events that no answer shows.

use std::sync::OnceLock;

use crate::lease::{Key, Moment, Token};

/// Events that no answer shows, for tests.
#[derive(Clone, Copy, Debug)]
pub enum Observed<'a> {
    /// R1: a promise was decided.
    Promised(Promise<'a>),
    /// R5: the tenure of a dead node was adopted here.
    Adopted,
    /// R2: this node could not promise for a while, and can again.
    Lapsed,
}

/// A promise, at the moment of the decision (R1), for tests. Instants are readings of the node's clock.
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    pub key: &'a Key,
    pub token: Token,
    /// The reading of the clock on which the promise was decided.
    pub decided: Moment,
    /// How long it was promised for, in milliseconds.
    pub ttl_ms: u64,
    /// When this node's record runs out.
    pub until: Moment,
}

/// The receiver of these events.
#[derive(Default)]
pub struct Observer(OnceLock<Tell>);

type Tell = Box<dyn Fn(Observed<'_>) + Send + Sync>;

impl Observer {
    /// Only the first call has an effect.
    pub fn set(&self, tell: impl Fn(Observed<'_>) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(tell));
    }

    pub fn tell(&self, what: Observed<'_>) {
        if let Some(tell) = self.0.get() {
            tell(what);
        }
    }
}
