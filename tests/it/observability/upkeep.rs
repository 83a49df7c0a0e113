//! What is observed takes no memory while nobody scrapes.

use metrics::histogram;
use tenure::telemetry::Recorder;

/// Observations, eight bytes each and a bit: 30 MB when nobody moves them into buckets.
const OBSERVATIONS: u32 = 4_000_000;

#[test]
fn upkeep_bounds_the_memory_that_observations_take() {
    let recorder = Recorder::install().expect("a recorder");
    let histogram = histogram!("tenure_lease_expiry_lateness_seconds");
    let observe = |upkeep_every: u32| {
        let before = resident_kib();
        for n in 0..OBSERVATIONS {
            histogram.record(f64::from(n % 100) / 1000.0);
            if upkeep_every > 0 && n % upkeep_every == 0 {
                recorder.upkeep();
            }
        }
        resident_kib().saturating_sub(before)
    };
    let kept = observe(50_000);
    let left_alone = observe(0);
    println!("{kept} KiB with upkeep, {left_alone} KiB without");
    assert!(left_alone > 20_000, "without upkeep it would grow, but by {left_alone} KiB only");
    assert!(kept < left_alone / 4, "grew by {kept} KiB");
    let count = format!("tenure_lease_expiry_lateness_seconds_count {}", 2 * OBSERVATIONS);
    assert!(recorder.render().contains(&count), "no observation is lost");
}

/// The resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}
