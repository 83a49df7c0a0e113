//! The end of a tenure, and the record that it is written into.

use super::context::Env;
use crate::lease::{
    primitives::Moment,
    records::{Change, ChangeKind, Record},
};

/// How a tenure ends, as the change that reports it says.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) kind: ChangeKind,
    pub(super) reason: Option<Box<str>>,
    pub(super) actor: Option<Box<str>>,
    pub(super) value: Option<Box<str>>,
    pub(super) due: Option<Moment>,
    /// No answer named the tenure.
    pub(super) unheard: bool,
    /// The call that was granted the tenure goes on, and may be granted the key again under its request id.
    pub(super) goes_on: bool,
}

/// A record that is about to be written, and the changes that take effect with it.
pub(super) struct Draft {
    pub(super) record: Record,
    pub(super) changes: Vec<Change>,
}

impl End {
    pub(super) fn of(kind: ChangeKind) -> Self {
        let (reason, actor, value, due) = (None, None, None, None);
        Self { kind, reason, actor, value, due, unheard: false, goes_on: false }
    }

    /// The end of a tenure that no answer named. It leaves no minimum hold.
    pub(super) fn unheard() -> Self {
        let reason = Some("the caller had left".into());
        Self { reason, unheard: true, ..Self::of(ChangeKind::Released) }
    }
}

impl Draft {
    /// Whether the same write may grant the key.
    pub(super) fn is_open(&self, env: &Env<'_>) -> bool {
        env.context.rules.a_key_is_open(self.record.state)
    }
}
