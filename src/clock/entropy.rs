//! Sources of randomness.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

use rand::{
    Rng, SeedableRng,
    rngs::{StdRng, SysRng},
};

use super::{Chance, chance::splitmix64};
use crate::lease::Nonce;

/// The source of secrets, nonces and seeds.
pub trait Entropy: Send + Sync {
    /// Fills the buffer with random bytes.
    fn fill(&self, buffer: &mut [u8]);

    /// 64 random bits.
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// 128 bits that this source returns only once.
    fn nonce(&self) -> Nonce {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        Nonce(u128::from_le_bytes(bytes))
    }

    /// A small generator for one actor.
    fn chance(&self) -> Chance {
        Chance::new(self.next_u64())
    }

    /// Discards all state. This must be called after a jump of the clock: two processes may have resumed from the same
    /// snapshot, and would otherwise return the same nonces.
    fn refresh(&self) {}
}

/// How many times [`SystemEntropy::refresh`] was called in this process.
static REFRESHED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread's generator, and the number of refreshes when it was seeded.
    static GENERATOR: RefCell<Option<(u64, StdRng)>> = const { RefCell::new(None) };
}

/// A cryptographic generator per thread, seeded from the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl SystemEntropy {
    /// The source, which keeps no state of its own.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// # Panics
    /// When the operating system has no randomness to give. Nothing here can continue without it.
    fn with<R>(use_it: impl FnOnce(&mut StdRng) -> R) -> R {
        let refreshed = REFRESHED.load(Ordering::Acquire);
        GENERATOR.with_borrow_mut(|slot| {
            if !matches!(slot, Some((seeded_under, _)) if *seeded_under == refreshed) {
                let fresh = StdRng::try_from_rng(&mut SysRng)
                    .expect("the operating system gives random bytes");
                *slot = Some((refreshed, fresh));
            }
            let (_, generator) = slot.as_mut().expect("filled above");
            use_it(generator)
        })
    }
}

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        Self::with(|generator| generator.fill_bytes(buffer));
    }

    fn next_u64(&self) -> u64 {
        Self::with(Rng::next_u64)
    }

    fn refresh(&self) {
        REFRESHED.fetch_add(1, Ordering::AcqRel);
    }
}

/// A source that returns the same sequence for the same seed. Only for tests and the simulator: whoever saw one output
/// can predict all others.
#[derive(Debug)]
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    /// The sequence that `seed` determines: equal seeds give equal bytes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(Chance::new(seed).next_u64()))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    fn next_u64(&self) -> u64 {
        splitmix64::mix(self.0.fetch_add(splitmix64::STEP, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_replays_its_sequence_and_another_seed_gives_another() {
        let take = |seed| {
            let source = SeededEntropy::new(seed);
            let mut bytes = [0; 13];
            source.fill(&mut bytes);
            (bytes, source.next_u64(), source.nonce(), source.chance().next_u64())
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
    }

    #[test]
    fn nonces_differ_across_threads_and_refreshes() {
        let source: &dyn Entropy = &SystemEntropy::new();
        let batch = || (0..1000).map(|_| source.nonce()).collect::<Vec<_>>();
        let mut seen: HashSet<Nonce> = batch().into_iter().collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(batch)).collect();
            threads.into_iter().for_each(|t| seen.extend(t.join().unwrap()));
        });
        source.refresh();
        seen.extend(batch());
        assert_eq!(seen.len(), 6000);
    }
}
