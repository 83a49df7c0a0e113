//! How the guard has its lease.

use crate::lease::Moment;

/// What the guard knows of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// No lease, and no campaign.
    Nothing,
    /// A campaign runs. If it was withdrawn, its answer is no longer wanted.
    Asking { withdrawn: bool },
    /// The lease is held, and guaranteed until `deadline`.
    Held { deadline: Moment },
    /// The lease is left to expire.
    Abandoned,
    /// The lease is being given back.
    Releasing,
}

impl Hold {
    pub(super) fn released(&mut self) {
        if *self == Self::Releasing {
            *self = Self::Nothing;
        }
    }
}
