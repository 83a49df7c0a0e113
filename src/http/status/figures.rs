//! Figures of what happened lately, as documents.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    api::{Measured, SeriesPoint, Spans},
    clock::rfc3339,
    telemetry::recent::{Cause, Counts, Point, SpansSummary},
};

/// The counts of changes by cause, without those that are 0.
pub fn changes(counts: &Counts) -> BTreeMap<String, u64> {
    let pair = |cause: Cause| (cause.as_str().to_owned(), counts[cause.index()].into());
    Cause::all().map(pair).filter(|(_, count)| *count > 0).collect()
}

/// The counts of changes of the store, without what the answering node alone counts.
fn of_store(counts: &Counts) -> BTreeMap<String, u64> {
    let mut all = changes(counts);
    all.remove(Cause::ADOPTED.as_str());
    all
}

/// Whole milliseconds. A span that took time takes 1 ms at least.
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

fn spans(summary: &SpansSummary) -> Spans {
    let SpansSummary { count, p50, p99, longest } = *summary;
    Spans { count, p50_ms: millis(p50), p99_ms: millis(p99), longest_ms: millis(longest) }
}

/// What the changes of the store were, and what the node measured.
pub fn figures(point: &Point) -> (BTreeMap<String, u64>, Measured) {
    let measured = Measured {
        adopted: point.counts[Cause::ADOPTED.index()].into(),
        vacancy: spans(&point.vacancy),
        hold: spans(&point.hold),
        lateness: spans(&point.lateness),
    };
    (of_store(&point.counts), measured)
}

/// A slice of time that began at this reading of the wall clock, in milliseconds since 1970.
pub fn point(point: &Point, began_ms: u64) -> SeriesPoint {
    let (changes, this_node) = figures(point);
    SeriesPoint { at: rfc3339(began_ms), changes, this_node }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::ChangeKind;

    #[test]
    fn causes_without_a_change_are_left_out_and_adoptions_are_of_the_node() {
        let mut all = Point::default();
        all.counts[Cause::of_kind(ChangeKind::Expired).index()] = 3;
        all.counts[Cause::ADOPTED.index()] = 2;
        all.lateness.p99 = Duration::from_micros(1001);
        all.lateness.count = 1;
        let shown = point(&all, 0);
        assert_eq!(shown.at, "1970-01-01T00:00:00.000Z");
        assert_eq!(shown.changes, BTreeMap::from([("expired".to_owned(), 3)]));
        assert_eq!(shown.this_node.adopted, 2);
        let lateness = Spans { count: 1, p50_ms: 0, p99_ms: 2, longest_ms: 0 };
        assert_eq!(shown.this_node.lateness, lateness);
    }
}
