//! A short digest, by which nodes compare what they have.

use sha2::{Digest, Sha256};

/// The first 64 bits of SHA-256.
pub fn digest(bytes: &[u8]) -> u64 {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    hash[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
