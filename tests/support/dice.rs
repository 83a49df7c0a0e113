//! Draws from a seed.

use tenure::clock::Chance;

pub trait Dice {
    /// From `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64;

    /// From 0 to below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.between(0, end - 1)
    }

    /// With this many in a thousand.
    fn per_mille(&mut self, share: u64) -> bool {
        self.between(0, 999) < share
    }

    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }

    /// A generator of its own.
    fn fork(&mut self) -> Chance;
}

impl Dice for Chance {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + ((u128::from(self.next_u64()) * u128::from(high - low + 1)) >> 64) as u64
    }

    fn fork(&mut self) -> Chance {
        Chance::new(self.next_u64())
    }
}
