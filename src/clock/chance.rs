//! A random generator with eight bytes of state, one for every key's actor.

use std::{convert::Infallible, time::Duration};

use rand::{Rng, TryRng, rand_core::utils, seq::SliceRandom};

/// The generator of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
pub(super) mod splitmix64 {
    /// The increment of the state: 2^64 divided by the golden ratio, odd.
    pub(in crate::clock) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub(in crate::clock) fn mix(state: u64) -> u64 {
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A random generator for orders and jitter, with eight bytes of state. The same seed gives the same sequence. It is
/// good enough to be fair and must not be used for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// The sequence of `seed`. Seeds that are close together give unrelated sequences.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(splitmix64::mix(seed.wrapping_add(splitmix64::STEP)))
    }

    /// The sequence of `name` under `seed`. It is the same at any time and on any machine.
    #[must_use]
    pub fn of(seed: u64, name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self::new(seed ^ splitmix64::mix(hash))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        Rng::next_u64(self)
    }

    /// Puts the items into a random order. Every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(self);
    }

    /// The numbers from 0 to `n − 1` in a random order.
    #[must_use]
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        self.shuffle(&mut order);
        order
    }

    /// A random time span from zero to `span`: full jitter, which separates callers that failed at the same time.
    #[must_use]
    pub fn jitter(&mut self, span: Duration) -> Duration {
        // 53 bits fill the mantissa of a double exactly.
        span.mul_f64((self.next_u64() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

impl TryRng for Chance {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next_u64() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(splitmix64::STEP);
        Ok(splitmix64::mix(self.0))
    }

    fn try_fill_bytes(&mut self, buffer: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(buffer, || self.try_next_u64())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // The published first outputs for the state 1234567.
        let mut chance = Chance(1_234_567);
        let outputs = [0; 3].map(|_: u8| chance.next_u64());
        assert_eq!(
            outputs,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    /// χ² of 24 orders, 23 degrees of freedom: a value above 65 has a probability below 1 in 100 000.
    fn assert_even(draws: impl Iterator<Item = Vec<usize>>) {
        let mut counts: HashMap<Vec<usize>, u32> = HashMap::new();
        let mut total = 0.0;
        for order in draws {
            *counts.entry(order).or_default() += 1;
            total += 1.0;
        }
        assert_eq!(counts.len(), 24);
        let expected = total / 24.0;
        let chi2: f64 =
            counts.values().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi2 < 65.0, "χ² = {chi2}");
    }

    #[test]
    fn every_order_is_equally_likely_from_one_seed_and_over_neighbouring_seeds_and_keys() {
        let mut chance = Chance::new(42);
        assert_even((0..24_000).map(|_| chance.permutation(4)));
        assert_even((0..24_000).map(|seed| Chance::new(seed).permutation(4)));
        assert_even((0..24_000).map(|n| Chance::of(7, &format!("jobs/{n}")).permutation(4)));
    }

    #[test]
    fn a_seed_and_a_name_replay() {
        assert_eq!(Chance::of(1, "a").permutation(100), Chance::of(1, "a").permutation(100));
        assert_ne!(Chance::of(1, "a"), Chance::of(2, "a"));
        assert_ne!(Chance::of(1, "a"), Chance::of(1, "b"));
        assert_eq!(size_of::<Chance>(), 8);
    }

    #[test]
    fn jitter_covers_the_span_and_stays_in_it() {
        let (mut chance, span) = (Chance::new(3), Duration::from_secs(10));
        let draws: Vec<_> = (0..1000).map(|_| chance.jitter(span)).collect();
        assert!(draws.iter().all(|&d| d < span));
        assert!(draws.iter().any(|&d| d < span / 10) && draws.iter().any(|&d| d > span * 9 / 10));
        assert_eq!(chance.jitter(Duration::ZERO), Duration::ZERO);
    }
}
