//! The items with the most changes, in bounded memory: the algorithm Space-Saving.
//!
//! Guarantees: for each item that it has, the true number of changes is between [`Row::at_least`] and
//! [`Row::at_most`]. An item that it does not have was changed [`Summary::floor`] times at most. In a sketch of `n`
//! changes with room for `m` items, both errors are `n / m` at most. Where several are put together, the errors add up.
//!
//! Does not guarantee: that the item with the second most changes is there, if it has fewer than that.

use std::hash::Hash;

use super::cause::{Cause, Counts, add, sum};
use crate::clock::HashMap;

/// Counts changes of items as they happen.
#[derive(Debug)]
pub struct Sketch<T> {
    room: usize,
    /// The place of each item in the two lists.
    places: HashMap<T, usize>,
    rows: Vec<(T, Row)>,
    /// The most changes that each item may have: the number by which it is kept or replaced.
    most: Vec<u32>,
    /// No item has less than this.
    least: u32,
    /// Where the search for the next item to be replaced begins.
    hand: usize,
}

/// What is known of one item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The changes that were counted, by cause.
    pub counts: Counts,
    /// How many more there may have been before the item was in the sketch. It is never above the floor.
    pub missed: u32,
}

impl Row {
    /// The item was changed at least this often.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        sum(&self.counts)
    }

    /// The item was changed at most this often.
    #[must_use]
    pub fn at_most(&self) -> u64 {
        self.at_least() + u64::from(self.missed)
    }
}

impl<T: Clone + Eq + Hash> Sketch<T> {
    /// An empty one, with room for this many items, one or more.
    #[must_use]
    pub fn new(room: usize) -> Self {
        let (places, rows, most) = (HashMap::default(), Vec::new(), Vec::new());
        Self { room: room.max(1), places, rows, most, least: 0, hand: 0 }
    }

    /// Counts a change of an item.
    pub fn add(&mut self, item: &T, cause: Cause) {
        let place = match self.places.get(item).copied() {
            Some(place) => place,
            None if self.rows.len() < self.room => self.put(item),
            None => self.replace(item),
        };
        let count = &mut self.rows[place].1.counts[cause.index()];
        *count = count.saturating_add(1);
        self.most[place] = self.most[place].saturating_add(1);
    }

    fn put(&mut self, item: &T) -> usize {
        let place = self.rows.len();
        self.rows.push((item.clone(), Row::default()));
        self.most.push(0);
        self.places.insert(item.clone(), place);
        place
    }

    /// Puts the item in the place of one with the fewest changes, and takes over their number as what may be missed.
    fn replace(&mut self, item: &T) -> usize {
        let place = self.scarcest();
        let row = Row { missed: self.most[place], ..Row::default() };
        let (before, _) = std::mem::replace(&mut self.rows[place], (item.clone(), row));
        self.places.remove(&before);
        self.places.insert(item.clone(), place);
        place
    }

    /// The place of an item with the fewest changes. Numbers only rise, so each place is passed once for each number.
    fn scarcest(&mut self) -> usize {
        loop {
            let mut places = (self.hand..self.most.len()).chain(0..self.hand);
            if let Some(place) = places.find(|place| self.most[*place] <= self.least) {
                self.hand = (place + 1) % self.most.len();
                return place;
            }
            self.least = self.floor();
        }
    }

    /// An item that is not there was changed at most this often.
    fn floor(&self) -> u32 {
        let least = self.most.iter().copied().min().unwrap_or(0);
        if self.rows.len() < self.room { 0 } else { least }
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What it knows now.
    #[must_use]
    pub fn summary(&self) -> Summary<T> {
        Summary { rows: self.rows.iter().cloned().collect(), floor: self.floor() }
    }

    /// What it knows at its end.
    #[must_use]
    pub fn into_summary(self) -> Summary<T> {
        let floor = self.floor();
        Summary { rows: self.rows.into_iter().collect(), floor }
    }
}

/// What one sketch knows, or several together.
#[derive(Clone, Debug)]
pub struct Summary<T> {
    rows: HashMap<T, Row>,
    floor: u32,
}

impl<T> Default for Summary<T> {
    fn default() -> Self {
        Self { rows: HashMap::default(), floor: 0 }
    }
}

impl<T: Clone + Eq + Hash> Summary<T> {
    /// The items with what is known of each, in no order.
    pub fn rows(&self) -> impl Iterator<Item = (&T, &Row)> {
        self.rows.iter()
    }

    /// An item that is not there was changed at most this often.
    #[must_use]
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// What several say together that were counted in different times.
    #[must_use]
    pub fn together<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self
    where
        T: 'a,
    {
        let mut all = Self::default();
        for part in parts {
            all.floor = all.floor.saturating_add(part.floor);
            for (item, row) in &part.rows {
                let known = all.rows.entry(item.clone()).or_default();
                add(&mut known.counts, &row.counts);
                // By how much less is missed than in a part that does not have the item. It is turned round below.
                known.missed = known.missed.saturating_add(part.floor.saturating_sub(row.missed));
            }
        }
        for row in all.rows.values_mut() {
            row.missed = all.floor.saturating_sub(row.missed);
        }
        all
    }

    /// Keeps the items with the most changes, this many at most.
    pub fn keep(&mut self, room: usize) {
        if self.rows.len() <= room {
            return;
        }
        let mut most: Vec<u64> = self.rows.values().map(Row::at_most).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        let (least, mut equal) = (most[room.max(1) - 1], room);
        equal -= most.iter().take_while(|one| **one > least).count();
        let mut dropped = 0;
        self.rows.retain(|_, row| {
            let at_most = row.at_most();
            let is_kept = at_most > least || (at_most == least && equal > 0);
            if is_kept {
                equal -= usize::from(at_most == least);
            } else {
                dropped = dropped.max(at_most);
            }
            is_kept
        });
        self.floor = self.floor.max(u32::try_from(dropped).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lease::ChangeKind;

    const CAUSES: [ChangeKind; 3] =
        [ChangeKind::Granted, ChangeKind::Released, ChangeKind::Expired];

    fn exact(all: &[(u8, usize)]) -> HashMap<u8, [u64; CAUSES.len()]> {
        let mut counts: HashMap<u8, [u64; CAUSES.len()]> = HashMap::default();
        for (item, cause) in all {
            counts.entry(*item).or_default()[*cause] += 1;
        }
        counts
    }

    fn sketch(all: &[(u8, usize)], room: usize) -> Sketch<u8> {
        let mut sketch = Sketch::new(room);
        for (item, cause) in all {
            sketch.add(item, Cause::of_kind(CAUSES[*cause]));
        }
        sketch
    }

    /// Checks the promises of a summary against what truly happened.
    fn check(summary: &Summary<u8>, all: &[(u8, usize)]) -> Result<(), TestCaseError> {
        for (item, truth) in exact(all) {
            let total: u64 = truth.iter().sum();
            let Some(row) = summary.rows.get(&item) else {
                prop_assert!(total <= summary.floor.into(), "{item} is missing: {total}");
                continue;
            };
            prop_assert!(row.at_least() <= total && total <= row.at_most(), "{row:?}, {total}");
            for (cause, truth) in CAUSES.into_iter().zip(truth) {
                let counted = u64::from(row.counts[Cause::of_kind(cause).index()]);
                let most = counted + u64::from(row.missed);
                prop_assert!(counted <= truth && truth <= most, "{row:?}, {cause:?}: {truth}");
            }
        }
        Ok(())
    }

    #[test]
    fn the_one_that_always_changes_is_found_among_ever_new_ones() {
        let mut sketch = Sketch::new(8);
        for number in 0..10_000_u32 {
            sketch.add(&(number + 1), Cause::of_kind(ChangeKind::Granted));
            sketch.add(&0, Cause::of_kind(ChangeKind::Expired));
        }
        let summary = sketch.summary();
        let row = &summary.rows[&0];
        assert_eq!((row.at_least(), row.at_most(), summary.rows.len()), (10_000, 10_000, 8));
        assert!(summary.floor <= 20_000 / 8);
    }

    #[test]
    fn an_error_is_zero_as_long_as_there_is_room() {
        let all: Vec<_> = (0..64).map(|at| (at % 8, usize::from(at % 3))).collect();
        let mut summary = sketch(&all, 8).summary();
        assert!(summary.rows.values().all(|row| row.missed == 0));
        let few = sketch(&all, 9).into_summary();
        assert_eq!(few.floor(), 0, "there is room for one more");
        summary.keep(8);
        assert_eq!(summary.rows.len(), 8);
        summary.keep(3);
        assert_eq!((summary.rows.len(), summary.floor()), (3, 8), "those dropped had 8 each");
    }

    proptest! {
        #[test]
        fn what_a_sketch_says_is_true_and_its_error_is_bounded(
            all in prop::collection::vec((0_u8..40, 0..CAUSES.len()), 0..600),
            room in 1_usize..24,
        ) {
            let summary = sketch(&all, room).summary();
            check(&summary, &all)?;
            let bound = all.len() / room;
            prop_assert!(summary.floor as usize <= bound);
            prop_assert!(summary.rows.len() <= room);
            prop_assert!(summary.rows.values().all(|row| row.missed as usize <= bound));
            // Whatever was changed more often than the error is there.
            for (item, truth) in exact(&all) {
                let is_many = truth.iter().sum::<u64>() > bound as u64;
                prop_assert!(!is_many || summary.rows.contains_key(&item));
            }
        }

        #[test]
        fn what_several_sketches_say_together_is_true(
            parts in prop::collection::vec(
                prop::collection::vec((0_u8..40, 0..CAUSES.len()), 0..120), 0..8),
            room in 1_usize..24,
            cuts in prop::collection::vec(any::<bool>(), 8),
        ) {
            let mut together = Summary::default();
            for (part, cut) in parts.iter().zip(cuts) {
                let part = sketch(part, room).into_summary();
                together = Summary::together([&together, &part]);
                if cut {
                    together.keep(room);
                    prop_assert!(together.rows.len() <= room);
                }
            }
            check(&together, &parts.concat())?;
        }
    }
}
