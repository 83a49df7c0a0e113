//! 128 bits that name one write, one grant or one process start.

use std::fmt;

use serde::{Deserialize, Serialize};

/// 128 bits that are never used twice. A nonce names a write (so that a read can settle it when the reply was lost), a
/// grant (so that a repeated call finds its own grant), or an incarnation of a node.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Nonce(pub u128);

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
