//! Distributions of spans of time, in buckets whose width grows with the span.
//!
//! Guarantees: a quantile is never below the true one, and above it by at most a quarter, or by 1 µs where that is more.
//! A distribution takes 648 bytes, however many spans it has.

use std::time::Duration;

/// Buckets for each doubling: four.
const SHIFT: u32 = 2;
/// Spans of 2^41 µs, about 25 days, and longer ones are in the last bucket.
const DOUBLINGS: u32 = 41;
const BUCKETS: usize = ((DOUBLINGS - SHIFT + 1) << SHIFT) as usize;

/// A distribution of spans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans {
    counts: [u32; BUCKETS],
    /// The longest one, in microseconds.
    longest: u64,
}

/// What is told of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpansSummary {
    /// How many spans there were.
    pub count: u64,
    /// The span that half of them did not exceed.
    pub p50: Duration,
    /// The span that 99 % of them did not exceed.
    pub p99: Duration,
    /// The longest one.
    pub longest: Duration,
}

impl Default for Spans {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], longest: 0 }
    }
}

impl Spans {
    /// Adds a span.
    pub fn add(&mut self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let count = &mut self.counts[place(micros)];
        *count = count.saturating_add(1);
        self.longest = self.longest.max(micros);
    }

    /// Adds the spans of another distribution.
    pub fn absorb(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.longest = self.longest.max(other.longest);
    }

    /// How many spans there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// The span that this many per cent of the spans did not exceed; zero if there are none.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Duration {
        let rank = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank && seen > 0 {
                return Duration::from_micros(end(place).min(self.longest));
            }
        }
        Duration::ZERO
    }

    /// What is told of the distribution.
    #[must_use]
    pub fn summary(&self) -> SpansSummary {
        SpansSummary {
            count: self.count(),
            p50: self.percentile(50),
            p99: self.percentile(99),
            longest: Duration::from_micros(self.longest),
        }
    }
}

/// The bucket of a number of microseconds.
fn place(micros: u64) -> usize {
    let micros = micros.min((1 << DOUBLINGS) - 1);
    let Some(power) = micros.checked_ilog2().filter(|power| *power >= SHIFT) else {
        return micros as usize;
    };
    let step = (micros >> (power - SHIFT)) & ((1 << SHIFT) - 1);
    (((power - SHIFT + 1) << SHIFT) as usize) + step as usize
}

/// The highest number of microseconds in a bucket. The last bucket has no end.
fn end(place: usize) -> u64 {
    if place + 1 >= BUCKETS {
        return u64::MAX;
    }
    if place < 1 << SHIFT {
        return place as u64;
    }
    let scale = (place >> SHIFT) - 1;
    let step = (place & ((1 << SHIFT) - 1)) as u64;
    (((1 << SHIFT) + step + 1) << scale) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_buckets_follow_each_other_and_none_is_wider_than_a_quarter_of_its_spans() {
        let mut next = 0;
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(place(next), bucket, "{next} µs begin the bucket");
            assert_eq!(place(end(bucket)), bucket, "{next} µs and so on");
            assert!(end(bucket) - next <= next / 4, "bucket {bucket} is too wide");
            next = end(bucket) + 1;
        }
        assert_eq!([place(next), place(u64::MAX)], [BUCKETS - 1; 2]);
    }

    #[test]
    fn an_empty_distribution_has_no_spans() {
        assert_eq!(Spans::default().summary(), SpansSummary::default());
    }

    #[test]
    fn spans_beyond_the_buckets_are_as_long_as_the_longest() {
        let mut spans = Spans::default();
        let year = Duration::from_secs(365 * 24 * 3600);
        spans.add(year);
        assert_eq!(spans.summary(), SpansSummary { count: 1, p50: year, p99: year, longest: year });
    }

    proptest! {
        #[test]
        fn a_percentile_is_the_true_one_and_a_quarter_more_at_most(
            mut all in prop::collection::vec(0_u64..1 << 40, 1..200),
            cut in 0_usize..200,
            percent in 1_u64..=100,
        ) {
            let (mut spans, mut others) = (Spans::default(), Spans::default());
            for (at, micros) in all.iter().enumerate() {
                let to = if at < cut { &mut spans } else { &mut others };
                to.add(Duration::from_micros(*micros));
            }
            spans.absorb(&others);
            all.sort_unstable();
            let rank = (all.len() as u64 * percent).div_ceil(100) as usize;
            let truth = all[rank - 1];
            let told = spans.percentile(percent).as_micros() as u64;
            prop_assert!(truth <= told && told <= truth + truth / 4, "{told} for {truth}");
            prop_assert_eq!(spans.count(), all.len() as u64);
        }
    }
}
