//! What happened in each of the last minutes, and in each of the last slices of five seconds.
//!
//! Guarantees: sixty slices of each length are kept at most. A slice takes about 2 KiB, so both take 240 KiB at most.

use std::{collections::VecDeque, time::Duration};

use super::{
    cause::{Cause, Counts, add},
    spans::{Spans, SpansSummary},
};
use crate::lease::Moment;

/// How many slices of each length are kept.
const SLICES: u64 = 60;

/// Which spans of time are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// How long a key was without an owner.
    Vacancy,
    /// How long a tenure lasted.
    Hold,
    /// How long after its deadline a tenure ended.
    Lateness,
}

/// The length of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Five seconds.
    Fine,
    /// A minute.
    Minute,
}

impl Step {
    /// The length.
    #[must_use]
    pub fn span(self) -> Duration {
        match self {
            Self::Fine => Duration::from_secs(5),
            Self::Minute => Duration::from_secs(60),
        }
    }
}

/// What happened in a slice of time.
#[derive(Clone, Debug, Default)]
struct Slice {
    counts: Counts,
    spans: [Spans; 3],
}

impl Slice {
    fn absorb(&mut self, other: &Self) {
        add(&mut self.counts, &other.counts);
        for (spans, more) in self.spans.iter_mut().zip(&other.spans) {
            spans.absorb(more);
        }
    }
}

/// What is told of a slice, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// When it began.
    pub start: Moment,
    /// How many changes there were, by cause.
    pub counts: Counts,
    /// How long keys were without an owner.
    pub vacancy: SpansSummary,
    /// How long tenures lasted.
    pub hold: SpansSummary,
    /// How long after their deadlines tenures ended.
    pub lateness: SpansSummary,
}

impl Point {
    fn of(start: Moment, Slice { counts, spans }: &Slice) -> Self {
        let [vacancy, hold, lateness] = spans.each_ref().map(Spans::summary);
        Self { start, counts: *counts, vacancy, hold, lateness }
    }
}

/// The slices of one length. Those in which nothing happened are left out.
#[derive(Debug)]
struct Ring {
    step: u64,
    slices: VecDeque<(u64, Slice)>,
}

impl Ring {
    fn new(step: Step) -> Self {
        let step = u64::try_from(step.span().as_nanos()).unwrap_or(u64::MAX);
        Self { step, slices: VecDeque::new() }
    }

    /// The present slice. What a thread reports late counts in the latest one.
    fn present(&mut self, now: Moment) -> &mut Slice {
        let number = now.0 / self.step;
        if self.slices.back().is_none_or(|(last, _)| *last < number) {
            while self.slices.front().is_some_and(|(first, _)| first + SLICES <= number) {
                self.slices.pop_front();
            }
            self.slices.push_back((number, Slice::default()));
        }
        let last = self.slices.len() - 1;
        &mut self.slices[last].1
    }

    /// Every slice from the one in which the node began, as far as they are kept.
    fn points(&self, began: Moment, now: Moment) -> Vec<Point> {
        let present = now.0 / self.step;
        let first = (began.0 / self.step).max(present.saturating_sub(SLICES - 1));
        let mut kept = self.slices.iter().skip_while(|(number, _)| *number < first).peekable();
        let point = |number| {
            let start = Moment(number * self.step);
            match kept.next_if(|(kept, _)| *kept == number) {
                Some((_, slice)) => Point::of(start, slice),
                None => Point { start, ..Point::default() },
            }
        };
        (first..=present).map(point).collect()
    }

    /// What happened in the last `span`, or a little longer: slices are not divided.
    fn lately(&self, now: Moment, span: Duration) -> Slice {
        let first = (now - span).0 / self.step;
        let mut all = Slice::default();
        let late = self.slices.iter().filter(|(number, _)| *number >= first);
        late.for_each(|(_, slice)| all.absorb(slice));
        all
    }
}

/// What happened in each of the last slices of time.
#[derive(Debug)]
pub struct Series {
    began: Moment,
    rings: [Ring; 2],
}

impl Series {
    /// Counts from now on.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self { began: now, rings: [Ring::new(Step::Fine), Ring::new(Step::Minute)] }
    }

    /// Counts a change.
    pub fn count(&mut self, now: Moment, cause: Cause) {
        for ring in &mut self.rings {
            let count = &mut ring.present(now).counts[cause.index()];
            *count = count.saturating_add(1);
        }
    }

    /// Adds a span that was measured.
    pub fn measure(&mut self, now: Moment, what: Measure, span: Duration) {
        for ring in &mut self.rings {
            ring.present(now).spans[what as usize].add(span);
        }
    }

    /// One point for each slice, oldest first. The last one is not over. There are as many as the node is old, and 60
    /// at most.
    #[must_use]
    pub fn points(&self, now: Moment, step: Step) -> Vec<Point> {
        self.rings[step as usize].points(self.began, now)
    }

    /// What happened in the last five minutes or less, as one point.
    #[must_use]
    pub fn lately(&self, now: Moment, span: Duration) -> Point {
        Point::of(now - span, &self.rings[Step::Fine as usize].lately(now, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::ChangeKind;

    const ANY: Cause = Cause::ADOPTED;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn counts(series: &Series, now: u64, step: Step) -> Vec<u32> {
        let points = series.points(at(now), step);
        points.iter().map(|point| point.counts[ANY.index()]).collect()
    }

    #[test]
    fn each_slice_has_what_happened_in_it_and_empty_ones_are_zero() {
        let mut series = Series::new(at(600));
        for second in [600, 601, 604, 605, 616, 719] {
            series.count(at(second), ANY);
        }
        assert_eq!(counts(&series, 617, Step::Fine), [3, 1, 0, 1]);
        assert_eq!(counts(&series, 720, Step::Minute), [5, 1, 0]);
        let starts = series.points(at(720), Step::Minute);
        let starts: Vec<_> = starts.iter().map(|point| point.start).collect();
        assert_eq!(starts, [at(600), at(660), at(720)]);
    }

    #[test]
    fn sixty_slices_are_kept_of_each_length() {
        let mut series = Series::new(at(0));
        for second in 0..10_000 {
            series.count(at(second), ANY);
        }
        assert_eq!(counts(&series, 9_999, Step::Fine), [5; 60]);
        let minutes = counts(&series, 9_999, Step::Minute);
        assert_eq!((minutes.len(), minutes[0], minutes[59]), (60, 60, 40));
        assert!(series.rings.iter().all(|ring| ring.slices.len() <= 60));
        assert_eq!(counts(&series, 20_000, Step::Minute), [0; 60], "an hour without a change");
    }

    #[test]
    fn spans_are_kept_apart_and_put_together_for_a_while() {
        let mut series = Series::new(at(0));
        let second = Duration::from_secs(1);
        series.measure(at(10), Measure::Lateness, second);
        series.measure(at(50), Measure::Lateness, second * 3);
        series.measure(at(50), Measure::Hold, second * 9);
        let all = series.lately(at(55), Duration::from_secs(60));
        assert_eq!((all.lateness.count, all.lateness.longest), (2, second * 3));
        assert_eq!((all.hold.count, all.vacancy.count), (1, 0));
        assert_eq!(series.lately(at(75), Duration::from_secs(30)).lateness.count, 1);
        assert_eq!(series.lately(at(300), Duration::from_secs(60)).lateness.count, 0);
    }

    #[test]
    fn what_is_reported_late_counts_in_the_latest_slice() {
        let mut series = Series::new(at(0));
        series.count(at(10), ANY);
        series.count(at(9), Cause::of_kind(ChangeKind::Granted));
        let points = series.points(at(10), Step::Fine);
        assert_eq!(points.len(), 3);
        assert_eq!(points[2].counts[Cause::of_kind(ChangeKind::Granted).index()], 1);
    }
}
