//! What a run counted: requests, units of work, latencies, and answers that should not have come.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::stopwatch::micros;

/// The longest latency that is told apart: an hour, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;
/// How much of the first fault is kept for the report, in characters.
const SHOWN: usize = 2_000;

/// Latencies in microseconds, to three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// An empty set.
    pub fn new() -> Self {
        // The bounds are constants that the constructor accepts, so the fallback is never taken.
        Self(
            Histogram::new_with_bounds(1, LONGEST_US, 3)
                .unwrap_or_else(|_| unreachable!("constant histogram bounds")),
        )
    }

    /// Adds one latency.
    pub fn record(&mut self, span: Duration) {
        self.0.saturating_record(micros(span).max(1));
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        // Equal bounds: adding cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// The usual quantiles; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<Summary> {
        if self.0.is_empty() {
            return None;
        }
        Some(Summary {
            p50_us: self.0.value_at_quantile(0.50),
            p99_us: self.0.value_at_quantile(0.99),
            p999_us: self.0.value_at_quantile(0.999),
            max_us: self.0.max(),
            samples: self.0.len(),
        })
    }
}

/// Quantiles of a set of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// Median.
    pub p50_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
    /// How many were recorded.
    pub samples: u64,
}

/// Answers nobody expected: their number, and the first one's words.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// How many there were.
    pub count: u64,
    /// What the first one said.
    pub first: Option<String>,
}

impl Faults {
    /// Counts one more; `describe` is called for the first only.
    pub fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(describe().chars().take(SHOWN).collect());
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

/// The counters of one run over all its connections.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Answers that came in the window and were as expected.
    pub requests: u64,
    /// Units of work done by them: cycles, leases, grants.
    pub units: u64,
    /// Their latencies.
    pub latencies: Latencies,
    /// The latencies of whole cycles, where a cycle is several requests.
    pub cycles: Latencies,
    /// Unexpected answers and broken connections, also outside the window.
    pub faults: Faults,
}

impl Tally {
    /// All at zero.
    pub fn new() -> Self {
        Self {
            requests: 0,
            units: 0,
            latencies: Latencies::new(),
            cycles: Latencies::new(),
            faults: Faults::default(),
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.units += other.units;
        self.latencies.merge(&other.latencies);
        self.cycles.merge(&other.cycles);
        self.faults.merge(other.faults);
    }
}

/// The middle of `values` (the mean of the two middle ones), 0 for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        len if len % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_odd_even_and_none() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(&[]).abs() < f64::EPSILON);
    }

    #[test]
    fn the_first_fault_is_kept_and_all_are_counted() {
        let mut faults = Faults::default();
        faults.add(|| "acquire: 500 oh".to_owned());
        faults.add(|| "acquire: 400 no".to_owned());
        assert_eq!(faults.count, 2);
        assert_eq!(faults.first.as_deref(), Some("acquire: 500 oh"));
    }

    #[test]
    fn quantiles_are_exact_to_three_digits() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|ms| latencies.record(Duration::from_millis(ms)));
        let summary = latencies.summary().unwrap();
        assert!(summary.p50_us.abs_diff(500_000) <= 500);
        assert!(summary.p99_us.abs_diff(990_000) <= 1_000);
        assert!(Latencies::new().summary().is_none());
    }
}
