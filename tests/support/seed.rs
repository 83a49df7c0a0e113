//! What the environment says about a run.

use tenure::clock::{Entropy, SystemEntropy};

/// A number from the environment.
///
/// # Panics
/// When it is none.
pub fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// `SEED`, or a random one. Printed, so that a failure can be replayed with it.
pub fn seed(of: &str) -> u64 {
    let seed = from_environment("SEED").unwrap_or_else(|| SystemEntropy::new().next_u64() >> 16);
    println!("{of}: SEED={seed}");
    seed
}
