//! JWTs that were verified, so that the next call with the same one costs a hash and a lookup.

use super::{claims::Span, fault::JwtFault};
use crate::{
    access::token::TokenDigest,
    clock::{DashMap, dash_map},
};

/// The most JWTs that are kept. Each takes about 200 bytes.
const MOST: usize = 4096;

/// What is known of verified JWTs, by their digests.
#[derive(Clone, Debug)]
pub(super) struct Cache<V: Clone>(DashMap<TokenDigest, (Span, V)>);

impl<V: Clone> Default for Cache<V> {
    fn default() -> Self {
        Self(dash_map())
    }
}

impl<V: Clone> Cache<V> {
    /// What is known of a JWT.
    ///
    /// # Errors
    /// When it is no longer valid, or not yet.
    pub(super) fn get(&self, digest: &TokenDigest, now_ms: u64) -> Result<Option<V>, JwtFault> {
        let known = self.0.get(digest).map(|known| known.value().clone());
        known.map(|(span, known)| span.contains(now_ms).map(|()| known)).transpose()
    }

    /// Keeps what is known of a JWT. Only those that were verified come here, so strangers cannot fill it.
    pub(super) fn keep(&self, digest: TokenDigest, span: Span, known: V, now_ms: u64) {
        if self.0.len() >= MOST {
            self.0.retain(|_, (span, _)| now_ms < span.until_ms);
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(digest, (span, known));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_its_bound_and_what_has_ended_goes_first() {
        let digest = |n: usize| TokenDigest::of(&n.to_string());
        let cache = Cache::default();
        let span = |until_ms: u64| Span { from_ms: 0, until_ms };
        (0..MOST - 1).for_each(|n| cache.keep(digest(n), span(10), n, 5));
        cache.keep(digest(MOST), span(20), MOST, 5);
        assert_eq!(cache.len(), MOST);
        assert_eq!(cache.get(&digest(7), 9), Ok(Some(7)));
        assert_eq!(cache.get(&digest(7), 10), Err(JwtFault::Expired));
        cache.keep(digest(MOST + 1), span(20), MOST + 1, 10);
        assert_eq!((cache.len(), cache.get(&digest(MOST), 10)), (2, Ok(Some(MOST))));
        assert_eq!(cache.get(&digest(7), 10), Ok(None));
        (0..MOST).for_each(|n| cache.keep(digest(n), span(20), n, 10));
        assert!(cache.len() <= MOST);
        assert_eq!(cache.get(&digest(MOST - 1), 10), Ok(Some(MOST - 1)));
    }
}
