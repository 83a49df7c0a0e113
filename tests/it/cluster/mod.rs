//! Several real nodes on one store, real workers: how many leases are kept through a crash and a rolling
//! restart, and what the store is written to for. Faults of every other kind are in `tests/chaos`.
//!
//! Checked, throughout: windows of different tenures of a key never overlap (I1); tokens rise (I2);
//! what subscribers of all nodes are told is one history without a hole (I4); once faults stop no key
//! is stuck (I8). `SEED` replays the choices, not the timing. With `CHAOS_MINUTES` both are of full size.

mod checker;
mod cluster;
mod ledger;
mod subscriber;
mod worker;
mod writes;

use crate::support::servers::Servers;
use cluster::{Cluster, Fault};
use tenure::clock::{Chance, Entropy, SystemEntropy};

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Whether there is time.
fn long() -> bool {
    from_environment("CHAOS_MINUTES").is_some_and(|minutes| minutes > 0)
}

fn seed() -> u64 {
    let seed = from_environment("SEED").unwrap_or_else(|| SystemEntropy::new().next_u64() >> 16);
    println!("SEED={seed}");
    seed
}

/// How many workers contend for how many keys.
const WORKERS: usize = 60;
const KEYS: usize = 600;
/// The least share of leases that is kept through a crash, at a ttl of ten seconds.
const KEPT: f64 = 0.99;

/// Starts three nodes and the workers, and waits until most of the leases are held.
async fn at_work(servers: Servers, ttl_ms: u64, seed: u64) -> Cluster {
    let mut cluster = Cluster::start(servers, 3, ttl_ms).await;
    // Each of them gives a lease back in one of some rounds.
    cluster.employ(WORKERS, KEYS, 12, seed);
    cluster.until_held(KEYS * 3 / 4, 40_000).await;
    cluster
}

/// A fault, and what may become of the leases through it.
async fn suffer(cluster: &mut Cluster, fault: Fault, chance: &mut Chance) {
    let fortunes = cluster.suffer(fault, chance).await;
    match fault {
        Fault::Roll if cluster.ttl_ms >= 10_000 => {
            assert!(fortunes.lost.is_empty(), "a rolling restart: {:?}", fortunes.lost);
        }
        Fault::Crash if cluster.ttl_ms >= 10_000 => {
            assert!(fortunes.share() >= KEPT, "{:?}", fortunes.lost);
        }
        _ => return,
    }
    // Of few leases it would be easy to keep all.
    assert!(fortunes.kept * 2 >= KEYS, "{} were kept", fortunes.kept);
}

/// With a ttl that leaves the time for it, a node's crash costs next to nobody a lease, and a rolling
/// restart nobody.
async fn kept_at_ten_seconds(servers: Servers) {
    let seed = seed();
    let mut chance = Chance::of(seed, "faults");
    let mut cluster = at_work(servers, 10_000, seed).await;
    suffer(&mut cluster, Fault::Crash, &mut chance).await;
    suffer(&mut cluster, Fault::Roll, &mut chance).await;
    cluster.finish().await;
}

#[tokio::test]
async fn leases_outlive_their_node() {
    if long() {
        kept_at_ten_seconds(Servers::nats().await).await;
        kept_at_ten_seconds(Servers::dynamo()).await;
    } else {
        tokio::join!(
            kept_at_ten_seconds(Servers::nats().await),
            kept_at_ten_seconds(Servers::dynamo())
        );
    }
}

#[tokio::test]
async fn a_store_is_written_to_for_ownership_and_nodes_only() {
    if long() {
        // At full size each needs the machine for itself.
        writes::are_few(Servers::nats().await).await;
        writes::are_few(Servers::dynamo()).await;
    } else {
        tokio::join!(writes::are_few(Servers::nats().await), writes::are_few(Servers::dynamo()));
    }
}
