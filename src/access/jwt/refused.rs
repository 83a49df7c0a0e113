//! JWTs whose signature is wrong, so that the next call with the same one costs a hash and a lookup.

use crate::{
    access::token::TokenDigest,
    clock::{DashMap, dash_map},
};

/// The most JWTs that are kept. Each takes about 50 bytes.
const MOST: usize = 4096;

/// The digests of JWTs that no key of their issuer has signed. Whether a JWT has expired is not kept: it changes.
#[derive(Clone, Debug)]
pub(super) struct Refused(DashMap<TokenDigest, ()>);

impl Default for Refused {
    fn default() -> Self {
        Self(dash_map())
    }
}

impl Refused {
    pub(super) fn has(&self, digest: &TokenDigest) -> bool {
        self.0.contains_key(digest)
    }

    /// Keeps one more. Strangers fill it: then all are forgotten, and each costs a verification again.
    pub(super) fn keep(&self, digest: TokenDigest) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(digest, ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bound() {
        let refused = Refused::default();
        for n in 0..3 * MOST {
            refused.keep(TokenDigest::of(&n.to_string()));
            assert!(refused.0.len() <= MOST);
        }
        assert!(refused.has(&TokenDigest::of(&(3 * MOST - 1).to_string())));
        assert!(!refused.has(&TokenDigest::of("0")));
    }
}
