//! The disk probe: how fast a small durable write is, right now, where the store lives.
//!
//! Virtual disks flip between a fast and a slow regime within minutes; a rate without the regime
//! says nothing.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::Latencies;
use crate::stopwatch::tick;

/// Writes per probe.
const WRITES: u64 = 200;
/// Bytes per write: one page.
const PAGE: u64 = 4096;
/// From this many synced writes a second on, the regime is called fast (0.1 to 0.2 ms each).
const FAST_PER_S: f64 = 2_000.0;

/// All probes of one run.
#[derive(Clone, Debug)]
pub struct Probes {
    latencies: Latencies,
    rates: Vec<f64>,
}

/// What the probes of one run say.
#[derive(Clone, Debug, Serialize)]
pub struct Disk {
    /// Median of write plus fdatasync, µs.
    pub p50_us: u64,
    /// 99th percentile, µs.
    pub p99_us: u64,
    /// Synced writes per second, the mean over the probes.
    pub syncs_per_s: f64,
    /// `fast`, `slow`, or `mixed` when it changed between the rounds.
    pub regime: &'static str,
}

impl Probes {
    /// No probe yet.
    pub fn new() -> Self {
        Self { latencies: Latencies::new(), rates: Vec::new() }
    }

    /// What one probe in `directory` says.
    pub fn once(directory: &Path) -> Result<Option<Disk>> {
        let mut probes = Self::new();
        probes.probe(directory)?;
        Ok(probes.summary())
    }

    /// Writes and syncs pages into a scratch file in `directory`.
    pub fn probe(&mut self, directory: &Path) -> Result<()> {
        let path = directory.join("disk-probe");
        let probed = self.write_pages(&path).with_context(|| format!("probing {}", path.display()));
        let _ = std::fs::remove_file(&path);
        probed
    }

    fn write_pages(&mut self, path: &Path) -> Result<()> {
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(true).write(true).open(path)?;
        // Overwriting allocated pages, as a preallocated log does.
        for page in 0..WRITES {
            file.write_all_at(&[0x55; PAGE as usize], page * PAGE)?;
        }
        file.sync_all()?;
        let mut total = Duration::ZERO;
        for page in 0..WRITES {
            let begun = tick();
            file.write_all_at(&[0xaa; PAGE as usize], page * PAGE)?;
            file.sync_data()?;
            let span = tick() - begun;
            self.latencies.record(span);
            total += span;
        }
        self.rates.push(WRITES as f64 / total.as_secs_f64());
        Ok(())
    }

    /// What they say; `None` when there was none.
    pub fn summary(&self) -> Option<Disk> {
        let latencies = self.latencies.summary()?;
        let fast = self.rates.iter().filter(|rate| **rate >= FAST_PER_S).count();
        Some(Disk {
            p50_us: latencies.p50_us,
            p99_us: latencies.p99_us,
            syncs_per_s: (self.rates.iter().sum::<f64>() / self.rates.len() as f64).round(),
            regime: match fast {
                0 => "slow",
                all if all == self.rates.len() => "fast",
                _ => "mixed",
            },
        })
    }
}
