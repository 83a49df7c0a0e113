//! A summary of the leases that a session keeps.

use sha2::{Digest, Sha256};

use crate::lease::primitives::{Key, Token};

/// A summary of the leases that a session keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    pub count: usize,
    /// XOR, over all of them, of the first 64 bits of SHA-256 of `key ‖ 0 ‖ token` (decimal).
    pub digest: u64,
}

pub(super) fn share(key: &Key, token: Token) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key.as_str().as_bytes());
    hash.update([0]);
    hash.update(token.0.to_string().as_bytes());
    let hash = hash.finalize();
    u64::from_be_bytes(hash[..8].try_into().unwrap_or_default())
}
