//! Several real nodes on one store, real workers, real faults: what the protocol promises is kept.
//!
//! Checked, throughout: windows of different tenures of a key never overlap (I1); tokens rise (I2);
//! what subscribers of all nodes are told is one history without a hole (I4); once faults stop no key
//! is stuck (I8); and how many leases are kept through each fault. `SEED` replays the choices, not the
//! timing. `CHAOS_MINUTES` makes a run of random faults, as long as that.

#![allow(dead_code, reason = "until every store is there")]

mod checker;
mod clock;
mod cluster;
mod ledger;
mod node;
mod process;
mod proxy;
mod servers;
mod subscriber;
mod worker;

use cluster::{Cluster, Fault};
use servers::Servers;
use tenure::clock::{Chance, Entropy, SystemEntropy};

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

fn seed() -> u64 {
    let seed = from_environment("SEED").unwrap_or_else(|| SystemEntropy::new().next_u64() >> 16);
    println!("SEED={seed}");
    seed
}

/// One node that is killed and started again, on its own disk: the workers and the checkers, tried on
/// what is known to hold.
#[tokio::test]
async fn one_embedded_node() {
    let seed = seed();
    let mut cluster = Cluster::start(Servers::embedded(), 1, 3_000).await;
    cluster.employ(20, 200, 10, seed);
    cluster.until_held(150, 15_000).await;
    let mut chance = Chance::of(seed, "faults");
    let fortunes = cluster.suffer(Fault::Roll, &mut chance).await;
    assert!(fortunes.share() >= 0.99, "{:?}", fortunes.lost);
    cluster.finish().await;
}
