//! What an acquire-any was granted, before and after its caller is told.

use crate::{
    lease::{Grant, Key},
    manager::{error::Home, unheard::Unheard},
};

/// What an acquire-any was granted.
#[derive(Debug, Default)]
pub struct Taken {
    /// Grants by this node, now or earlier.
    pub grants: Vec<(Key, Grant)>,
    /// Earlier grants whose home nodes are other living nodes. [`Manager::granted_here`] at these nodes returns the
    /// rest.
    ///
    /// [`Manager::granted_here`]: crate::manager::Manager::granted_here
    pub elsewhere: Vec<(Key, Home)>,
}

/// Grants of a call that has not been answered yet.
#[derive(Default)]
pub(in crate::manager) struct Served {
    pub grants: Vec<Unheard>,
    /// Grants of an earlier call with the same request id whose home nodes are other living nodes.
    pub elsewhere: Vec<(Key, Home)>,
    /// Another grant of such a call is over.
    pub in_part: bool,
}

impl Served {
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.elsewhere.is_empty()
    }
}

impl From<Vec<Unheard>> for Served {
    fn from(grants: Vec<Unheard>) -> Self {
        Self { grants, ..Self::default() }
    }
}

impl From<Served> for Taken {
    fn from(Served { grants, elsewhere, .. }: Served) -> Self {
        Self { grants: grants.into_iter().map(Unheard::heard).collect(), elsewhere }
    }
}
